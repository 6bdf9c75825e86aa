package main

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"
)

// Steps that every partition may take at first, and how much more in each round after that. A history is illegal if one
// partition is, so the easy ones are asked before any hard one takes all the time and the memory.
const (
	firstSteps     = 1 << 14
	stepsPerEntry  = 16
	moreEachRound  = 8
	stepsPerLook   = 1 << 10
	mostStepsTaken = math.MaxInt64 / moreEachRound
)

// A stopwatch limits processor time, not time that passes: what other processes take of the machine does not count.
type stopwatch struct {
	end time.Duration // of processor time; 0: never
}

func startStopwatch(timeout time.Duration, parts int) *stopwatch {
	if timeout <= 0 {
		return &stopwatch{}
	}
	return &stopwatch{processorTime() + timeout*time.Duration(max(1, min(parts, runtime.GOMAXPROCS(0))))}
}

func (s *stopwatch) over() bool {
	return s.end != 0 && processorTime() > s.end
}

// overNow is over for who asks at every step: it looks now and then.
func (s *stopwatch) overNow(step int64) bool {
	return step%stepsPerLook == 0 && s.over()
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err) // it cannot fail with these arguments
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// decide says whether the history is linearizable and, if not or not known, in which partition first. Rounds of growing numbers of
// steps make it the same one on every machine, and stop at the first round that finds one.
func (p *problem) decide(limit *stopwatch, guard *guard) (verdict, int) {
	left := make([]int, len(p.parts))
	for i := range left {
		left[i] = i
	}
	var tooLarge []int
	for factor := int64(1); len(left) > 0; factor *= moreEachRound {
		verdicts := p.round(left, factor, limit, guard)
		var again []int
		for i, part := range left {
			if verdicts[i] == unknownMemory {
				verdicts[i] = p.search(part, factor, limit, guard) // alone: its neighbours do not count
			}
			switch verdicts[i] {
			case illegal:
				return illegal, part
			case unknownMemory:
				tooLarge = append(tooLarge, part)
			case unknownTime:
				again = append(again, part)
			}
		}
		left = again
		if limit.over() && len(left) > 0 {
			return unknownTime, left[0]
		}
	}
	if len(tooLarge) > 0 {
		return unknownMemory, tooLarge[0]
	}
	return ok, 0
}

// round asks about some partitions, on all processors.
func (p *problem) round(parts []int, factor int64, limit *stopwatch, guard *guard) []verdict {
	verdicts := make([]verdict, len(parts))
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(parts)) {
		group.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(parts)); i = next.Add(1) - 1 {
				verdicts[i] = p.search(parts[i], factor, limit, guard)
			}
		})
	}
	group.Wait()
	return verdicts
}

// search asks about one partition; unknownTime also when it took its steps.
func (p *problem) search(part int, factor int64, limit *stopwatch, guard *guard) verdict {
	alone := p.only(part)
	most := min(max(firstSteps, stepsPerEntry*int64(len(alone.parts[0]))), mostStepsTaken/factor) * factor
	abort := guard.enter()
	defer guard.leave(abort)
	steps, ended := int64(0), false
	halt := func() bool {
		steps++
		ended = ended || steps > most || limit.overNow(steps)
		return ended || abort.Load()
	}
	result := porcupine.CheckOperationsTimeout(alone.model(halt, nil), nil, 0)
	if ended && result != porcupine.Ok {
		return unknownTime
	}
	return verdictOf(result, abort)
}
