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
