package main

import (
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
)

// A spec is a sequential specification: what an operation does to a state and whether what it answered agrees.
//
// step must be total for operations of unknown outcome: then "it never happened" is the same as "it happened last".
type spec struct {
	initial  any
	step     func(state any, op *operation) (bool, any)
	equal    func(a, b any) bool
	hash     func(state any) uint64
	describe func(state any) string
	reads    []string // operations that change nothing: of unknown outcome they can be left out
	byKey    bool     // the first argument is a key, and keys are independent
}

func specification(name string, initial value) (*spec, error) {
	switch name {
	case "log":
		return logSpec(), nil
	case "register", "cas-register":
		return registerSpec(initial), nil
	case "key-value":
		return keyValueSpec(initial), nil
	case "set":
		return setSpec(), nil
	case "queue":
		return queueSpec(), nil
	}
	return nil, fmt.Errorf("unknown model %q", name)
}

// agrees tells whether the answer of an operation is the one given, or not known.
func (op *operation) agrees(answer value) bool {
	return op.status == unknown || op.output.value == answer
}

// claims tells whether an operation answered with anything at all; an acknowledgement alone is null.
func (op *operation) claims() bool {
	return op.status == answered && op.output.kind != null
}

func integer(n int64) value { return value{kind: number, number: n} }

func truth(b bool) value {
	if b {
		return value{kind: boolean, number: 1}
	}
	return value{kind: boolean}
}

// logSpec: append answers the offset it got (null: an acknowledgement without it), read the value at an offset or null
// where there is none, tail the number of entries. The state is a *chain.
func logSpec() *spec {
	return &spec{
		initial: (*chain)(nil),
		step: func(state any, op *operation) (bool, any) {
			entries := state.(*chain)
			switch op.f {
			case "append":
				if op.claims() && op.output.value != integer(entries.size()) {
					return false, state
				}
				return true, entries.push(op.a)
			case "read":
				if op.a.number >= entries.size() {
					return op.agrees(value{}), state
				}
				return op.agrees(entries.at(op.a.number)), state
			default: // tail
				return op.agrees(integer(entries.size())), state
			}
		},
		equal: func(a, b any) bool {
			x, y := a.(*chain), b.(*chain)
			return x.size() == y.size() && x.sum() == y.sum() && equalFrom(x, y, x.size())
		},
		hash:     func(state any) uint64 { return state.(*chain).sum() },
		describe: func(state any) string { return describeEntries(state.(*chain), 0) },
		reads:    []string{"read", "tail"},
	}
}

// registerSpec: read answers the value, write nothing, cas whether the value was the expected one and was replaced.
func registerSpec(initial value) *spec {
	return &spec{
		initial: initial,
		step: func(state any, op *operation) (bool, any) {
			switch op.f {
			case "write":
				return true, op.a
			case "cas":
				if state.(value) == op.a {
					return op.agrees(truth(true)), op.b
				}
				return op.agrees(truth(false)), state
			default: // read
				return op.agrees(state.(value)), state
			}
		},
		equal:    func(a, b any) bool { return a.(value) == b.(value) },
		hash:     func(state any) uint64 { return state.(value).hash() },
		describe: func(state any) string { return state.(value).String() },
		reads:    []string{"read"},
	}
}

// keyValueSpec: one key, for keys are independent. get answers its value, put nothing, append (to null or a text)
// nothing. The state is a value.
//
// Where nothing is put, a text only grows, and so it is at all times the beginning of whatever was got later: an append
// that leads elsewhere leads nowhere, and need not be tried. operation.leads is that text.
func keyValueSpec(initial value) *spec {
	return &spec{
		initial: initial,
		step: func(state any, op *operation) (bool, any) {
			now := state.(value)
			switch op.f {
			case "put":
				return true, op.b
			case "append":
				switch now.kind {
				case null, text:
					return op.appendTo(now.text)
				}
				return op.status == unknown, state
			default: // get
				return op.agrees(now), state
			}
		},
		equal:    func(a, b any) bool { return a.(value) == b.(value) },
		hash:     func(state any) uint64 { return state.(value).hash() },
		describe: func(state any) string { return state.(value).String() },
		reads:    []string{"get"},
		byKey:    true,
	}
}

// appendTo gives the text after an append, as a part of the text that it leads to as long as it is one.
func (op *operation) appendTo(before string) (bool, value) {
	if op.leads == nil {
		return true, value{kind: text, text: before + op.b.text}
	}
	leads, size := *op.leads, len(before)+len(op.b.text)
	if size <= len(leads) {
		return leads[:len(before)] == before && leads[len(before):size] == op.b.text, value{kind: text, text: leads[:size]}
	}
	after := before + op.b.text
	return strings.HasPrefix(after, leads), value{kind: text, text: after}
}

// leadTo finds what the appends to one key lead to: the longest text that was got, if nothing was put.
func leadTo(operations []*operation) {
	var longest *string
	for _, op := range operations {
		if op.f == "put" {
			return
		}
		if op.f == "get" && op.output.kind == text && (longest == nil || len(op.output.text) > len(*longest)) {
			longest = &op.output.text
		}
	}
	for _, op := range operations {
		if op.f == "append" {
			op.leads = longest
		}
	}
}

// setSpec: add and remove answer whether they changed the set (null: an acknowledgement alone), contains whether the
// element is there, read all elements. The state is a sorted []value that is never changed in place.
func setSpec() *spec {
	return &spec{
		initial: []value(nil),
		step: func(state any, op *operation) (bool, any) {
			elements := state.([]value)
			if op.f == "read" {
				return op.status == unknown || slices.Equal(elements, sorted(op.output.list)), state
			}
			place, found := slices.BinarySearchFunc(elements, op.a, compare)
			switch op.f {
			case "add":
				if op.claims() && !op.agrees(truth(!found)) {
					return false, state
				}
				if found {
					return true, state
				}
				return true, slices.Insert(slices.Clone(elements), place, op.a)
			case "remove":
				if op.claims() && !op.agrees(truth(found)) {
					return false, state
				}
				if !found {
					return true, state
				}
				return true, slices.Delete(slices.Clone(elements), place, place+1)
			default: // contains
				return op.agrees(truth(found)), state
			}
		},
		equal: func(a, b any) bool { return slices.Equal(a.([]value), b.([]value)) },
		hash: func(state any) uint64 {
			var sum uint64
			for _, element := range state.([]value) {
				sum += maphash.Comparable(hashSeed, element)
			}
			return sum
		},
		describe: func(state any) string { return describeList("{", state.([]value), "}") },
		reads:    []string{"contains", "read"},
	}
}

// A queue is the part of a chain that was not dequeued yet.
type queue struct {
	entries *chain
	head    int64
}

// queueSpec: first in, first out. enqueue answers nothing, dequeue the oldest value or null if there is none.
func queueSpec() *spec {
	return &spec{
		initial: queue{},
		step: func(state any, op *operation) (bool, any) {
			now := state.(queue)
			if op.f == "enqueue" {
				return true, queue{now.entries.push(op.a), now.head}
			}
			if now.head == now.entries.size() {
				return op.agrees(value{}), state
			}
			return op.agrees(now.entries.at(now.head)), queue{now.entries, now.head + 1}
		},
		equal: func(a, b any) bool {
			x, y := a.(queue), b.(queue)
			rest := x.entries.size() - x.head
			return rest == y.entries.size()-y.head && equalFrom(x.entries, y.entries, rest)
		},
		// Queues that are equal may have a different past: only what is in them counts.
		hash: func(state any) uint64 {
			now := state.(queue)
			rest := now.entries.size() - now.head
			if rest == 0 {
				return 0
			}
			return uint64(rest) ^ now.entries.value.hash()
		},
		describe: func(state any) string {
			now := state.(queue)
			return describeEntries(now.entries, now.head)
		},
	}
}

func sorted(values []value) []value {
	return slices.SortedFunc(slices.Values(values), compare)
}

func compare(a, b value) int {
	if a.kind != b.kind {
		return int(a.kind) - int(b.kind)
	}
	if a.number != b.number {
		if a.number < b.number {
			return -1
		}
		return 1
	}
	return strings.Compare(a.text, b.text)
}
