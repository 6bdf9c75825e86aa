package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"time"
)

// A request asks about one or many histories over one model. Operations are columns: the histories one after the
// other, cut by Lengths.
type request struct {
	ID        int64    `json:"id"`
	Model     string   `json:"model"`
	Initial   value    `json:"initial"`
	TimeoutMS int64    `json:"timeout_ms"` // for each history; 0 means none
	Explain   bool     `json:"explain"`    // partial linearizations wanted; only with one history
	Visualize bool     `json:"visualize"`  // HTML wanted; only with one history
	Lengths   []int    `json:"lengths"`    // operations of each history
	Status    string   `json:"status"`     // a letter for each operation: o ok, u unknown, f failed
	Process   []int64  `json:"process"`    //
	Call      []int64  `json:"call"`       //
	Return    []int64  `json:"return"`     // of no meaning unless ok
	F         []string `json:"f"`          // name of the operation
	A         []value  `json:"a"`          // first argument or null
	B         []value  `json:"b"`          // second argument or null
	Output    []output `json:"output"`     // what the operation answered; of no meaning unless ok
}

// An answer has a letter for each history: o ok, i illegal, t unknown for lack of time, m unknown for lack of memory.
type answer struct {
	ID         int64             `json:"id"`
	Error      string            `json:"error,omitempty"` // the request could not be understood
	Verdicts   string            `json:"verdicts"`
	Partitions []partitionAnswer `json:"partitions,omitempty"` // if explanations were asked for
	LeftOut    bool              `json:"left_out,omitempty"`   // they would not have fitted
	HTML       string            `json:"html,omitempty"`
	Seconds    float64           `json:"seconds"` // processor time that all of it took
}

// A partitionAnswer lists operations by their position in the history.
type partitionAnswer struct {
	Operations     []int   `json:"operations"`
	Linearizations [][]int `json:"linearizations"`
	LeftOut        int     `json:"left_out"` // further linearizations that were found and not listed
}

// A kind tells the types of value apart: 1, "1" and true are three values.
type kind uint8

const (
	null kind = iota
	boolean
	number
	text
)

// A value is one JSON scalar. Values are compared with ==.
type value struct {
	kind   kind
	number int64 // also 0 and 1 of a boolean
	text   string
}

func (v *value) UnmarshalJSON(data []byte) error {
	*v = value{}
	switch data[0] {
	case 'n':
		return nil
	case 't':
		v.kind, v.number = boolean, 1
		return nil
	case 'f':
		v.kind = boolean
		return nil
	case '"':
		v.kind = text
		return json.Unmarshal(data, &v.text)
	}
	parsed, err := strconv.ParseInt(string(data), 10, 64)
	v.kind, v.number = number, parsed
	return err
}

// An output is a value, or the list of values that a read of a whole set answers.
type output struct {
	value
	list []value
}

func (o *output) UnmarshalJSON(data []byte) error {
	if data[0] != '[' {
		return o.value.UnmarshalJSON(data)
	}
	o.list = []value{}
	return json.Unmarshal(data, &o.list)
}

// A status is how an operation ended, as far as its caller knows.
type status byte

const (
	answered status = 'o'
	unknown  status = 'u' // may have taken effect, at any time after its call
	failed   status = 'f' // certainly had no effect
)

type operation struct {
	status  status
	process int64
	call    int64
	ret     int64
	f       string
	a, b    value
	output  output
	leads   *string // append to a key: see keyValueSpec; nil: not known
}

func answerTo(line []byte, guard *guard) answer {
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		return answer{ID: r.ID, Error: err.Error()}
	}
	histories, err := r.histories()
	if err != nil {
		return answer{ID: r.ID, Error: err.Error()}
	}
	spec, err := specification(r.Model, r.Initial)
	if err != nil {
		return answer{ID: r.ID, Error: err.Error()}
	}
	timeout := time.Duration(r.TimeoutMS) * time.Millisecond
	began := processorTime()
	result := answer{ID: r.ID}
	if r.Explain || r.Visualize {
		if len(histories) != 1 {
			return answer{ID: r.ID, Error: "explain and visualize need exactly one history"}
		}
		explained := explain(spec, histories[0], timeout, r.Visualize, guard)
		result.Verdicts = string(explained.verdict)
		result.Partitions = explained.partitions
		result.LeftOut = explained.leftOut
		result.HTML = explained.html
	} else if len(histories) == 1 {
		p := newProblem(spec, histories[0])
		decided, _ := p.decide(startStopwatch(timeout, len(p.parts)), guard)
		result.Verdicts = string(decided)
	} else {
		result.Verdicts = checkAll(spec, histories, timeout, guard)
	}
	result.Seconds = (processorTime() - began).Seconds()
	return result
}

// histories cuts the columns into histories.
func (r *request) histories() ([][]operation, error) {
	n := len(r.Status)
	for _, length := range []int{len(r.Process), len(r.Call), len(r.Return), len(r.F), len(r.A), len(r.B), len(r.Output)} {
		if length != n {
			return nil, fmt.Errorf("columns differ in length: %d and %d", n, length)
		}
	}
	operations := make([]operation, n)
	for i := range operations {
		operations[i] = operation{
			status: status(r.Status[i]), process: r.Process[i], call: r.Call[i], ret: r.Return[i],
			f: r.F[i], a: r.A[i], b: r.B[i], output: r.Output[i],
		}
	}
	histories := make([][]operation, len(r.Lengths))
	for i, length := range r.Lengths {
		if length < 0 || length > len(operations) {
			return nil, fmt.Errorf("lengths do not add up to the %d operations", n)
		}
		histories[i], operations = operations[:length], operations[length:]
	}
	if len(operations) != 0 {
		return nil, fmt.Errorf("lengths do not add up to the %d operations", n)
	}
	return histories, nil
}
