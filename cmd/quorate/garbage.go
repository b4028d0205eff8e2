package main

import (
	"context"
	"os"
	"regexp"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// goCollector exports the Go runtime's figures, and with them the processor time that goes into collecting garbage
// (go_cpu_classes_gc_total_cpu_seconds_total, to be held against process_cpu_seconds_total) and how long all goroutines stood
// still for it (go_sched_pauses_total_gc_seconds).
func goCollector() prometheus.Collector {
	return collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(
		collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/cpu/classes/gc/total:cpu-seconds$|^/sched/pauses/total/gc:seconds$`)},
	))
}

const (
	// garbageMost is how much garbage may lie about before it is collected, where the runtime by itself would wait for as much
	// as is live. A node's heap is tables without pointers for the most part, which cost the collector next to nothing, so that
	// it may as well run at the pace of a small heap: a million queued messages are 80 MB of tables, ten million 800 MB.
	garbageMost = 64 << 20
	garbageLook = time.Second
)

// boundGarbage keeps the garbage of this process below garbageMost until ctx ends, unless GOGC says something else.
func boundGarbage(ctx context.Context) {
	if os.Getenv("GOGC") != "" {
		return
	}
	t := time.NewTicker(garbageLook)
	defer t.Stop()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	now := 100
	for {
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
		metrics.Read(live)
		if want := garbagePercent(live[0].Value.Uint64()); want != now { // setting it stops the world for a moment
			debug.SetGCPercent(want)
			now = want
		}
	}
}

// garbagePercent is the GOGC, in steps, at which the garbage of a heap with so many live bytes stays below garbageMost. The least is
// 10: from 640 MiB on garbage grows with the heap, as collections must not.
func garbagePercent(live uint64) int {
	for _, p := range []uint64{100, 80, 65, 50, 40, 30, 25, 20, 15} {
		if live*p/100 <= garbageMost {
			return int(p)
		}
	}
	return 10
}
