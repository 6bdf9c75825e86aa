package main

import (
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"sync/atomic"
	"time"
)

// exitMemory is the exit status of a worker that could not bring its memory back under the limit.
const exitMemory = 3

const (
	watchInterval = 5 * time.Millisecond
	// How long an aborted search may take to unwind before the whole worker gives up.
	unwindTime = 5 * time.Second
)

// A guard holds the process to its memory limit and ends it when its parent is gone.
//
// Above the limit it first asks the running searches to stop, so that they can still say how far they came. If that
// does not help, or a quarter above the limit, it ends the process with exitMemory.
type guard struct {
	limit   uint64
	mutex   sync.Mutex
	running map[*atomic.Bool]struct{}
}

func startGuard(limit uint64, parent int) *guard {
	g := &guard{limit: limit, running: make(map[*atomic.Bool]struct{})}
	if limit > 0 {
		// Below the limit by a tenth, so that garbage is collected before a search is given up for it.
		debug.SetMemoryLimit(int64(limit - limit/10))
	}
	go g.watch(parent)
	return g
}

// enter registers a search; the flag it returns is set when the search must stop. Call leave when it has ended.
func (g *guard) enter() *atomic.Bool {
	abort := new(atomic.Bool)
	g.mutex.Lock()
	g.running[abort] = struct{}{}
	g.mutex.Unlock()
	return abort
}

func (g *guard) leave(abort *atomic.Bool) {
	g.mutex.Lock()
	delete(g.running, abort)
	g.mutex.Unlock()
	if abort.Load() {
		debug.FreeOSMemory() // the next search starts with all the memory
	}
}

func (g *guard) watch(parent int) {
	var over time.Time // since when the memory is above the limit
	for range time.Tick(watchInterval) {
		// A forked child of the parent may hold our standard input open, so its end alone does not tell.
		if parent != 0 && os.Getppid() != parent {
			os.Exit(0)
		}
		if g.limit == 0 {
			continue
		}
		used := memoryUsed()
		switch {
		case used <= g.limit:
			over = time.Time{}
		case used > g.limit+g.limit/4, !over.IsZero() && time.Since(over) > unwindTime:
			os.Exit(exitMemory)
		case over.IsZero():
			over = time.Now()
			g.abortAll()
		}
	}
}

func (g *guard) abortAll() {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	for abort := range g.running {
		abort.Store(true)
	}
}

// memoryUsed is what the Go runtime holds and has not given back: the figure its own limit is about.
func memoryUsed() uint64 {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
	}
	metrics.Read(samples)
	return samples[0].Value.Uint64() - samples[1].Value.Uint64()
}
