package main

import (
	"fmt"
	"strconv"
	"strings"
)

// Descriptions are for the visualisation. They are short whatever the history holds, so that a page grows with the
// number of steps alone.
const (
	shownText    = 60 // characters of a text
	shownEntries = 8  // entries of a log, queue or set
)

func (v value) String() string {
	switch v.kind {
	case null:
		return "none"
	case boolean:
		return strconv.FormatBool(v.number == 1)
	case number:
		return strconv.FormatInt(v.number, 10)
	}
	characters := []rune(v.text)
	if len(characters) <= shownText {
		return strconv.Quote(v.text)
	}
	// The end tells more: texts grow by appending.
	return fmt.Sprintf("%d characters ending in %q", len(characters), string(characters[len(characters)-shownText:]))
}

func (op *operation) String() string {
	var arguments []string
	switch op.f {
	case "cas", "put":
		arguments = []string{op.a.String(), op.b.String()}
	case "tail", "dequeue":
	case "read":
		if op.a.kind != null {
			arguments = []string{op.a.String()}
		}
	default:
		arguments = []string{op.a.String()}
		if op.b.kind != null {
			arguments = append(arguments, op.b.String())
		}
	}
	answer := op.output.String()
	switch {
	case op.status == unknown:
		answer = "unknown"
	case op.status == failed:
		answer = "failed"
	case op.output.list != nil:
		answer = describeList("{", sorted(op.output.list), "}")
	case op.f == "write", op.f == "put", op.f == "enqueue", op.output.kind == null && len(arguments) > 0 && op.f != "read" && op.f != "get":
		answer = "ok"
	}
	return fmt.Sprintf("%s(%s) -> %s", op.f, strings.Join(arguments, ", "), answer)
}

func describeList(open string, values []value, close string) string {
	shown := values[max(0, len(values)-shownEntries):]
	parts := make([]string, 0, len(shown)+1)
	if len(shown) < len(values) {
		parts = append(parts, fmt.Sprintf("%d more", len(values)-len(shown)))
	}
	for _, v := range shown {
		parts = append(parts, v.String())
	}
	return open + strings.Join(parts, ", ") + close
}

// describeEntries shows the end of a chain from a position on.
func describeEntries(entries *chain, from int64) string {
	rest := entries.size() - from
	values := make([]value, min(rest, shownEntries))
	node := entries
	for i := len(values) - 1; i >= 0; i-- {
		values[i] = node.value
		node = node.before
	}
	more := ""
	if hidden := rest - int64(len(values)); hidden > 0 {
		more = fmt.Sprintf("%d more, ", hidden)
	}
	return describeList("["+more, values, "]")
}
