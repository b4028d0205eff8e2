package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// area is a part of what a node does.
type area struct {
	name  string
	funcs []string // a stack with a function whose name contains one of these belongs to it, if to none before it
}

// areas in the order in which they are asked: the first that knows a stack has it.
var areas = []area{
	{"garbage collection", []string{"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcStart", "runtime.(*mheap).reclaim", "runtime.deductSweepCredit"}},
	{"snapshots", []string{"raft.(*Raft).runSnapshots"}},
	{"log: sync of the disk", []string{"syscall.Fsync", "syscall.Fdatasync", "unix.Fdatasync", "bbolt.fdatasync", "(*File).Sync", "internal/poll.(*FD).Fsync"}},
	{"log: write", []string{"internal/poll.(*FD).Pwrite", "bbolt.(*Tx).write", "bbolt.(*Tx).Commit"}},
	{"log: all else of the store", []string{"cluster/store.", "raft-boltdb", "bbolt.", "raft-wal", "cluster/group.(*Ahead)", "cluster/group.(*LogCache)"}},
	{"state machine: apply", []string{"fsm.(*State).Apply"}},
	{"answers and deliveries", []string{"cluster/group.(*Group).settle", "cluster/group.(*Group).ended", "cluster/group.(*flushes).flush"}},
	{"apply pass, all else", []string{"cluster/group.machine.ApplyBatch"}},
	{"proposer: dispatcher", []string{"cluster/group.(*dispatcher)"}},
	{"proposer: packing", []string{"cluster/group.(*Group).pack", "cluster/group.(*Group).propose"}},
	{"clients: socket read", []string{"transport.(*conn).readMessage", "websocket.(*Conn).NextReader"}},
	{"clients: requests", []string{"transport.(*conn).message", "transport.(*conn).read"}},
	{"clients: socket write", []string{"transport.(*conn).write", "transport.(*conn).send"}},
	{"raft: messages to and from nodes", []string{"raft.(*NetworkTransport)", "raft.(*netPipeline)", "raft.sendRPC", "raft.decodeResponse", "cluster/link.", "raft.(*netConn)"}},
	{"raft: all else", []string{"hashicorp/raft.", "hashicorp/go-metrics"}},
	{"scheduler", []string{"runtime.mcall", "runtime.schedule", "runtime.findRunnable", "runtime.sysmon", "runtime.mstart", "runtime.morestack", "runtime.goexit0"}},
}

const allElse = "all else"

// areaOf is the area of a stack.
func areaOf(stack []string) string {
	for _, a := range areas {
		for _, f := range stack {
			for _, part := range a.funcs {
				if strings.Contains(f, part) {
					return a.name
				}
			}
		}
	}
	return allElse
}

// tally is the CPU time of a profile by area.
type tally map[string]time.Duration

// tallyOf reads a CPU profile with the Go tool.
func tallyOf(ctx context.Context, binary, file string) (tally, error) {
	out, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-traces", "-unit=us", binary, file).Output()
	if err != nil {
		return nil, fmt.Errorf("go tool pprof -traces %s: %w", file, err)
	}
	return readTraces(out)
}

// readTraces reads what pprof -traces writes: stacks, leaf first, between lines of dashes, the time before the leaf.
func readTraces(b []byte) (tally, error) {
	t := tally{}
	var stack []string
	var took time.Duration
	end := func() {
		if len(stack) > 0 {
			t[areaOf(stack)] += took
		}
		stack, took = stack[:0], 0
	}
	within := false
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		line := s.Text()
		if strings.HasPrefix(line, "-----------+") {
			end()
			within = true
			continue
		}
		fields := strings.Fields(line)
		if !within || len(fields) == 0 {
			continue
		}
		if len(stack) == 0 {
			d, err := time.ParseDuration(strings.ReplaceAll(fields[0], "µ", "u"))
			if err != nil || len(fields) < 2 {
				return nil, fmt.Errorf("line %q of a profile's traces: want a time and a function", line)
			}
			took, fields = d, fields[1:]
		}
		stack = append(stack, fields[0])
	}
	end()
	if len(t) == 0 {
		return nil, fmt.Errorf("a profile without samples: %.200s", b)
	}
	return t, nil
}

func (t tally) sum() (d time.Duration) {
	for _, v := range t {
		d += v
	}
	return d
}

// areaNames are all that any of the tallies has, the largest first.
func areaNames(ts ...tally) []string {
	all := tally{}
	for _, t := range ts {
		for name, d := range t {
			all[name] += d
		}
	}
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b)) })
	return names
}
