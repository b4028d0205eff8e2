package main

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// What bench/load reads of a node, under that name.
func TestGarbageIsExported(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(goCollector())
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == "go_cpu_classes_gc_total_cpu_seconds_total" {
			return
		}
	}
	t.Error("the time that goes into collecting garbage is not exported")
}

// Garbage is bounded by garbageMost, or by a tenth of what is live where that is more, and collecting it is not hurried for less.
func TestGarbagePercent(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		live uint64
		want int
	}{{0, 100}, {10 * mib, 100}, {64 * mib, 100}, {65 * mib, 80}, {80 * mib, 80}, {128 * mib, 50}, {130 * mib, 40}, {1024 * mib, 10}, {1 << 40, 10}} {
		if got := garbagePercent(c.live); got != c.want {
			t.Errorf("%d MiB live: %d %%, want %d %%", c.live/mib, got, c.want)
		}
	}
}
