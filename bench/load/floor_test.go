package load

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestRunFloorOneAtATime(t *testing.T) {
	t.Parallel()
	var out, all int
	cfg := FloorConfig{Nodes: 3, Size: 64, For: 300 * time.Millisecond, WarmUp: -1, ServerCPU: func() time.Duration { return time.Duration(all) * time.Millisecond }}
	res, err := RunFloor(t.Context(), cfg, func(body []byte) func() error {
		if out++; out != 1 || len(body) != 64 {
			t.Errorf("%d entries at once, a body of %d bytes; want 1 and 64", out, len(body))
		}
		return func() error { out--; all++; return nil }
	})
	if err != nil {
		t.Fatal(err)
	}
	if int64(all) != res.Messages || res.Messages == 0 || res.Workload != Floor || res.Nodes != 3 || res.Size != 64 || res.Confirm == nil || res.Late != nil {
		t.Errorf("%d entries were confirmed, the result is %+v", all, res)
	}
	if res.ServerCPU == nil || *res.ServerCPU != 1000 {
		t.Errorf("CPU a message is %v, want 1000 µs", res.ServerCPU)
	}
}

// TestRunFloorOutstanding: as many entries are out as were asked for, no more, and none at the end.
func TestRunFloorOutstanding(t *testing.T) {
	t.Parallel()
	const most = 4
	out, seen, all := 0, 0, int64(0)
	res, err := RunFloor(t.Context(), FloorConfig{For: 300 * time.Millisecond, WarmUp: -1, Outstanding: most}, func([]byte) func() error {
		out++
		seen = max(seen, out)
		n := all
		all++
		return func() error {
			if n != all-int64(out) {
				t.Errorf("entry %d was waited for, %d are out of %d: want the oldest", n, out, all)
			}
			out--
			return nil
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen != most || out != 0 || res.Messages != all {
		t.Errorf("%d entries were out at most, %d are, %d of %d were confirmed; want %d, 0 and all", seen, out, res.Messages, all, most)
	}
}

// TestRunFloorPaced: entries go out when they are due, whatever became of those before, and their latency counts from then.
func TestRunFloorPaced(t *testing.T) {
	t.Parallel()
	const rate, lasts = 1000, 300 * time.Millisecond
	var out atomic.Int64
	gate := make(chan struct{}) // nothing ends before many are out: a generator that waited for outcomes would hang
	var many sync.Once
	res, err := RunFloor(t.Context(), FloorConfig{For: lasts, WarmUp: -1, Rate: rate}, func([]byte) func() error {
		if out.Add(1) == 100 {
			many.Do(func() { close(gate) })
		}
		return func() error { <-gate; out.Add(-1); return nil }
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := int64(rate * lasts / time.Second); res.Messages != want || out.Load() != 0 {
		t.Errorf("%d entries were confirmed and %d are out, want %d and none", res.Messages, out.Load(), want)
	}
	if res.Confirm.Max < 99 || res.Late == nil || res.ServerCPU != nil {
		t.Errorf("the longest took %.1f ms, want 99 and more: the first was due before 99 others; %+v", res.Confirm.Max, res)
	}
}

func TestRunFloorFails(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, rate := range []float64{0, 1000} {
		n := 0
		_, err := RunFloor(t.Context(), FloorConfig{For: time.Hour, WarmUp: -1, Rate: rate}, func([]byte) func() error {
			n++
			fails := n == 3
			return func() error {
				if fails {
					return broken
				}
				return nil
			}
		})
		if !errors.Is(err, broken) {
			t.Errorf("rate %g: the run ended with %v, want the failed entry's error", rate, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		_, err = RunFloor(ctx, FloorConfig{For: time.Hour, WarmUp: -1, Rate: rate}, func([]byte) func() error {
			cancel()
			return func() error { return nil }
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("rate %g: the cancelled run ended with %v", rate, err)
		}
	}
}

func TestFloorConfig(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		cfg  FloorConfig
		want string
	}{
		{"defaults", FloorConfig{}, ""},
		{"small", FloorConfig{Size: MinSize - 1}, "size is 31; 32 to"},
		{"large", FloorConfig{Size: 1<<20 + 1}, "size is"},
		{"short", FloorConfig{For: time.Millisecond}, "for (seconds) is 0.001"},
		{"long", FloorConfig{For: 25 * time.Hour}, "for (seconds)"},
		{"warm", FloorConfig{WarmUp: 25 * time.Hour}, "warm-up (seconds)"},
		{"rate", FloorConfig{Rate: -1}, "rate is -1"},
		{"outstanding", FloorConfig{Outstanding: 65}, "outstanding is 65; 1 to 64"},
		{"outstanding and rate", FloorConfig{Outstanding: 2, Rate: 10}, "both given"},
		{"no number", FloorConfig{Rate: math.NaN()}, "rate is NaN"},
	} {
		err := c.cfg.Validate()
		if c.want == "" && err == nil {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
