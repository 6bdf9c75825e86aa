package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/anishathalye/porcupine"
)

// A verdict is one letter of an answer.
type verdict byte

const (
	ok            verdict = 'o'
	illegal       verdict = 'i'
	unknownTime   verdict = 't'
	unknownMemory verdict = 'm'
)

// Steps of partial linearizations that an answer lists besides one complete set; the longest ones come first.
const listedSteps = 100_000

// Without a memory limit, explanations are kept from the start as long as they cannot take more than this.
const explainBytes = 1 << 28

// A problem is a history as Porcupine wants it: only what matters, and cut into independent partitions.
type problem struct {
	spec    *spec
	history []operation
	parts   [][]int // positions in history
	end     int64   // a time after everything that was seen: unknown outcomes stay open until then
}

func newProblem(spec *spec, history []operation) *problem {
	p := &problem{spec: spec, history: history, end: math.MinInt64}
	keys := make(map[value]int)
	for i := range history {
		op := &history[i]
		p.end = max(p.end, op.call)
		if op.status == answered {
			p.end = max(p.end, op.ret)
		}
		if !p.matters(op) {
			continue
		}
		key := value{}
		if spec.byKey {
			key = op.a
		}
		part, seen := keys[key]
		if !seen {
			part = len(p.parts)
			keys[key] = part
			p.parts = append(p.parts, nil)
		}
		p.parts[part] = append(p.parts[part], i)
	}
	if p.end < math.MaxInt64 {
		p.end++
	}
	if spec.byKey {
		for _, part := range p.parts {
			operations := make([]*operation, len(part))
			for i, position := range part {
				operations[i] = &history[position]
			}
			leadTo(operations)
		}
	}
	return p
}

// matters: an operation that failed, or a read of unknown outcome, neither changes nor tells anything.
func (p *problem) matters(op *operation) bool {
	return op.status == answered || op.status == unknown && !slices.Contains(p.spec.reads, op.f)
}

// model gives the specification to Porcupine. Once halt says so no step is possible any more, which ends the search
// after it has unwound.
func (p *problem) model(halt func() bool, processes map[int64]int) porcupine.Model {
	return porcupine.Model{
		Partition: func([]porcupine.Operation) [][]porcupine.Operation {
			partitions := make([][]porcupine.Operation, len(p.parts))
			for i, part := range p.parts {
				partitions[i] = make([]porcupine.Operation, len(part))
				for j, position := range part {
					op := &p.history[position]
					end := op.ret
					if op.status == unknown {
						end = p.end
					}
					partitions[i][j] = porcupine.Operation{
						ClientId: processes[op.process], Input: op, Call: op.call, Output: op, Return: end, Metadata: position,
					}
				}
			}
			return partitions
		},
		Init: func() any { return p.spec.initial },
		Step: func(state, input, _ any) (bool, any) {
			if halt() {
				return false, state
			}
			return p.spec.step(state, input.(*operation))
		},
		Equal:             p.spec.equal,
		Hash:              p.spec.hash,
		DescribeOperation: func(input, _ any) string { return input.(*operation).String() },
		// Porcupine's page puts states and metadata into the document as they are.
		DescribeState: func(state any) string { return html.EscapeString(p.spec.describe(state)) },
		DescribeOperationMetadata: func(metadata any) string {
			position := metadata.(int)
			return fmt.Sprintf("operation %d of process %d", position, p.history[position].process)
		},
	}
}

// checkAll answers a letter for each history. Histories share the processors; one that ran when the memory came to its
// limit is tried again alone, so that its neighbours do not count.
func checkAll(spec *spec, histories [][]operation, timeout time.Duration, guard *guard) string {
	verdicts := make([]byte, len(histories))
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(histories)) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(histories)); i = next.Add(1) - 1 {
				verdicts[i] = byte(check(newProblem(spec, histories[i]), timeout, guard))
			}
		})
	}
	group.Wait()
	if len(histories) > 1 {
		for i := range verdicts {
			if verdicts[i] == byte(unknownMemory) {
				verdicts[i] = byte(check(newProblem(spec, histories[i]), timeout, guard))
			}
		}
	}
	return string(verdicts)
}

func check(p *problem, timeout time.Duration, guard *guard) verdict {
	abort := guard.enter()
	defer guard.leave(abort)
	result := porcupine.CheckOperationsTimeout(p.model(abort.Load, nil), nil, timeout)
	return verdictOf(result, abort)
}

func verdictOf(result porcupine.CheckResult, abort *atomic.Bool) verdict {
	switch {
	case abort.Load():
		return unknownMemory
	case result == porcupine.Ok:
		return ok
	case result == porcupine.Illegal:
		return illegal
	}
	return unknownTime
}

type explanation struct {
	verdict    verdict
	partitions []partitionAnswer
	leftOut    bool // it would not fit
	html       string
}

// Steps of a search that only shows how far one came that was given up.
const shownSteps = 1 << 18

// explain decides one history and then says how far the search came, if there is room and time for that: in the partition
// that was found to be illegal, or that could not be decided, or in all that are linearizable. The verdict never depends
// on the explanation.
func explain(spec *spec, history []operation, timeout time.Duration, visualize bool, guard *guard) explanation {
	p := newProblem(spec, history)
	limit := startStopwatch(timeout, len(p.parts))
	decided, part := p.decide(limit, guard)
	if decided != ok {
		p = p.only(part)
	}
	if !p.affordable(guard.limit) {
		return explanation{verdict: decided, partitions: p.answer(nil), leftOut: true}
	}
	abort := guard.enter()
	processes := p.processes()
	var steps atomic.Int64 // Porcupine searches partitions side by side
	var ended atomic.Bool
	halt := func() bool {
		step := steps.Add(1)
		if decided == ok || decided == illegal {
			if limit.overNow(step) {
				ended.Store(true)
			}
		} else if step > shownSteps {
			ended.Store(true)
		}
		return ended.Load() || abort.Load()
	}
	_, info := porcupine.CheckOperationsVerbose(p.model(halt, processes), nil, 0)
	answers := p.answer(info.PartialLinearizations())
	guard.leave(abort)
	explained := explanation{verdict: decided, partitions: answers}
	if visualize {
		explained.html = p.visualize(info, processes)
	}
	return explained
}

// only is the problem with one of its partitions.
func (p *problem) only(part int) *problem {
	return &problem{spec: p.spec, history: p.history, parts: p.parts[part : part+1], end: p.end}
}

func (p *problem) affordable(limit uint64) bool {
	var bytes uint64
	for _, part := range p.parts {
		bytes += 8 * uint64(len(part)) * uint64(len(part))
	}
	if limit == 0 {
		return bytes <= explainBytes
	}
	return bytes <= limit/4
}

// answer lists the partitions and cuts their partial linearizations, in place, to what is worth listing.
func (p *problem) answer(partials [][][]int) []partitionAnswer {
	answers := make([]partitionAnswer, len(p.parts))
	for i, part := range p.parts {
		answers[i] = partitionAnswer{Operations: part, Linearizations: [][]int{}}
		if i >= len(partials) {
			continue
		}
		found := partials[i]
		slices.SortFunc(found, func(a, b []int) int {
			if len(a) != len(b) {
				return len(b) - len(a)
			}
			return slices.Compare(a, b)
		})
		kept, steps := 0, 0
		for kept < len(found) && (kept == 0 || steps+len(found[kept]) <= listedSteps/len(p.parts)) {
			steps += len(found[kept])
			kept++
		}
		partials[i] = found[:kept]
		answers[i].LeftOut = len(found) - kept
		for _, linearization := range partials[i] {
			positions := make([]int, len(linearization))
			for j, id := range linearization {
				positions[j] = part[id]
			}
			answers[i].Linearizations = append(answers[i].Linearizations, positions)
		}
	}
	return answers
}

// processes numbers the processes from 0 on in order, for the page draws a line for every number.
func (p *problem) processes() map[int64]int {
	var names []int64
	for i := range p.history {
		names = append(names, p.history[i].process)
	}
	slices.Sort(names)
	numbers := make(map[int64]int)
	for i, name := range slices.Compact(names) {
		numbers[name] = i
	}
	return numbers
}

// visualize draws Porcupine's own page. Operations that do not matter are drawn as annotations.
func (p *problem) visualize(info porcupine.LinearizationInfo, processes map[int64]int) string {
	var annotations []porcupine.Annotation
	for i := range p.history {
		op := &p.history[i]
		if p.matters(op) {
			continue
		}
		end := op.ret
		if op.status == unknown {
			end = p.end
		}
		annotations = append(annotations, porcupine.Annotation{
			ClientId: processes[op.process], Start: op.call, End: end, Description: op.String(),
			Details: fmt.Sprintf("operation %d of process %d, without effect", i, op.process),
		})
	}
	info.AddAnnotations(annotations)
	var page bytes.Buffer
	if err := porcupine.Visualize(p.model(func() bool { return false }, processes), info, &page); err != nil {
		panic(err) // a buffer takes everything
	}
	return page.String()
}
