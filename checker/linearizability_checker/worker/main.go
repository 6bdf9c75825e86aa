// Command worker answers linearizability questions with Porcupine.
//
// It reads one JSON request a line from standard input and writes one JSON answer a line, in the order of the
// requests, to standard output; protocol.go has both. It ends at the end of its input. It is a process of its own and
// no shared library because a Go runtime does not survive a fork and because only a process can be held to a limit of
// memory.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	memory := flag.Uint64("memory-limit", 0, "bytes that the worker may use; 0 means no limit")
	parent := flag.Int("parent", 0, "process whose death ends the worker too; 0 means none")
	flag.Parse()
	guard := startGuard(*memory, *parent)
	if err := serve(os.Stdin, os.Stdout, guard); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// serve answers until the input ends. Answers are written out as soon as no further request is waiting.
func serve(input io.Reader, output io.Writer, guard *guard) error {
	lines := make(chan []byte, 1)
	failed := make(chan error, 1)
	go func() {
		failed <- readLines(input, lines)
		close(lines)
	}()
	buffered := bufio.NewWriterSize(output, 1<<16)
	encoder := json.NewEncoder(buffered)
	encoder.SetEscapeHTML(false)
	for line := range lines {
		if err := encoder.Encode(answerTo(line, guard)); err != nil {
			return err
		}
		if len(lines) == 0 {
			if err := buffered.Flush(); err != nil {
				return err
			}
		}
	}
	return errors.Join(<-failed, buffered.Flush())
}

func readLines(input io.Reader, lines chan<- []byte) error {
	reader := bufio.NewReaderSize(input, 1<<20)
	for {
		line, err := reader.ReadBytes('\n')
		if len(line) > 0 && err == nil {
			lines <- line
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
