package load

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// delayed runs with more and more time to fill the queue, until the machine can do it.
func delayed(t *testing.T, set func(*broker, *Config)) (*Result, error) {
	t.Helper()
	for lead := 150 * time.Millisecond; ; lead *= 2 {
		b := new(broker)
		cfg := b.quick(Delayed)
		cfg.Lead, cfg.drainStall = lead, busy
		set(b, &cfg)
		res, err := Run(t.Context(), cfg)
		if lead < 30*time.Second && err != nil && strings.Contains(err.Error(), "give them more time (lead)") {
			continue
		}
		return res, err
	}
}

func TestDelayed(t *testing.T) {
	var disturbed atomic.Int64
	res, err := delayed(t, func(_ *broker, cfg *Config) {
		rss := int64(1000)
		cfg.ServerRSS = func() []int64 { rss *= 101; return []int64{1, rss, 2} }
		cfg.Disturb = func(context.Context) error { disturbed.Add(1); return nil }
	})
	if err != nil {
		t.Fatal(err)
	}
	if !res.OK() || res.Messages != 1000 || disturbed.Load() != 1 {
		t.Errorf("%d messages, disturbed %d times:\n%s", res.Messages, disturbed.Load(), res)
	}
	// 1000 at 5000/s: the last is due 0.2 s after the first.
	if l := res.Lateness; l == nil || l.P50 > l.P99 || l.Max > 5000 || res.Seconds < 0.19 || res.Size != 64 {
		t.Errorf("lateness %+v in %g s of %d bytes", l, res.Seconds, res.Size)
	}
	if res.NodeBytes == nil || *res.NodeBytes != float64(1000*101*101-1000*101)/1000 || res.FillRate <= 0 {
		t.Errorf("memory %v, filled at %g/s", res.NodeBytes, res.FillRate)
	}
	for _, says := range []string{"lateness ms p50", "B of memory a message a node"} {
		if !strings.Contains(res.String(), says) {
			t.Errorf("%q is not in %s", says, res)
		}
	}
}

func TestDelayedFaults(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*broker, *Config)
		want Result
		err  string
	}{
		{"early", func(b *broker, _ *Config) { b.early = func(n int) bool { return n == 700 } }, Result{Early: 1}, ""},
		{"lost", func(b *broker, _ *Config) { b.keep = func(n int) bool { return n != 5 } }, Result{Lost: 1}, ""},
		{"twice", func(b *broker, _ *Config) { b.again = func(n int) bool { return n == 5 } }, Result{Duplicates: 1}, ""},
		{"disturbing fails", func(_ *broker, c *Config) { c.Disturb = func(context.Context) error { return errOpenForTest } }, Result{}, "no door"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			res, err := delayed(t, c.set)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("%v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := Result{Early: res.Early, Lost: res.Lost, Duplicates: res.Duplicates}
			if got.Early != c.want.Early || got.Lost != c.want.Lost || got.Duplicates != c.want.Duplicates || res.OK() {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

func TestDelayedNeedsTimeToFill(t *testing.T) {
	b := new(broker)
	cfg := b.quick(Delayed)
	cfg.Lead, cfg.Count = 10*time.Millisecond, 50_000
	if _, err := Run(t.Context(), cfg); err == nil || !strings.Contains(err.Error(), "50000 messages took") {
		t.Error(err)
	}
}

// The order of coming due is not the one of sending, and each message has its own time.
func TestCoprime(t *testing.T) {
	for _, n := range []int{1, 2, 3, 10, 1000, 1 << 16, 99_991} {
		c, seen := coprime(n), make([]bool, n)
		for i := range uint64(n) {
			k := i * c % uint64(n)
			if seen[k] {
				t.Fatalf("%d: %d comes twice", n, k)
			}
			seen[k] = true
		}
	}
}

func TestPriorities(t *testing.T) {
	b := new(broker)
	res := mustRun(t, b.quick(Priorities))
	if !res.OK() || len(res.Parts) != 2*levels || res.Judged < 200 {
		t.Fatalf("%d parts, %d judged:\n%s", len(res.Parts), res.Judged, res)
	}
	// At twice the capacity the last priority waits for all others.
	first, last := res.Parts[levels], res.Parts[2*levels-1]
	if first.Wait.P50 >= last.Wait.P50 || first.Name != "over capacity, priority 9" || last.Name != "over capacity, priority 0" {
		t.Errorf("%s waits %+v, %s %+v", first.Name, first.Wait, last.Name, last.Wait)
	}
	b = &broker{last: func(n int) bool { return n >= 100 }}
	if res = mustRun(t, b.quick(Priorities)); res.OutOfOrder == 0 || res.OK() {
		t.Errorf("a message that came last went first, and nothing is said:\n%s", res)
	}
}

func TestOutOfOrder(t *testing.T) {
	at := func(enqueued, leased uint64, priority uint8) placed {
		return placed{position{enqueued, 0}, position{leased, 0}, priority}
	}
	for _, c := range []struct {
		name string
		all  []placed
		want int64
	}{
		{"nothing", nil, 0},
		{"one after the other", []placed{at(1, 2, 4), at(3, 4, 9), at(5, 6, 0)}, 0},
		{"higher goes first", []placed{at(1, 5, 0), at(2, 4, 4), at(3, 3, 9)}, 0},
		{"lower went first", []placed{at(1, 4, 9), at(2, 3, 8)}, 1},
		{"higher came in the entry of the lease", []placed{at(3, 4, 9), at(2, 3, 8)}, 0},
		{"higher came later", []placed{at(4, 5, 9), at(2, 3, 8)}, 0},
		{"later of the same went first", []placed{at(1, 4, 4), at(2, 3, 4)}, 1},
		{"two went before one", []placed{at(1, 9, 9), at(2, 7, 3), at(3, 8, 5)}, 2},
		{"within an entry", []placed{{position{1, 1}, position{5, 0}, 4}, {position{1, 0}, position{5, 1}, 4}}, 1},
	} {
		if got := outOfOrder(c.all); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

func TestPositionOf(t *testing.T) {
	p, ok := positionOf(idAt(1<<63|77, 1<<31|5))
	if !ok || p != (position{1<<63 | 77, 1<<31 | 5}) {
		t.Errorf("%v %t", p, ok)
	}
	for _, bad := range []string{"", "0", strings.Repeat("U", 26), strings.Repeat("8", 26)} {
		if _, ok := positionOf(bad); ok {
			t.Errorf("%q is an id", bad)
		}
		if _, ok := leasePosition(bad); ok {
			t.Errorf("%q is a token", bad)
		}
	}
}

func TestKeysWorkload(t *testing.T) {
	b := new(broker)
	cfg := b.quick(Keys)
	cfg.For = 200 * time.Millisecond
	res := mustRun(t, cfg)
	if !res.OK() || len(res.Parts) != 2 || res.Ratio <= 0 || len(res.Parts[0].Runs) != 2 || len(b.waiting) > 0 {
		t.Fatalf("%d are left:\n%s", len(b.waiting), res)
	}
	if res.RatioSent <= 0 || res.Parts[1].Sent <= 0 || !strings.Contains(res.String(), "of what was sent") {
		t.Errorf("nothing is said of what was sent:\n%s", res)
	}
	if res.Parts[0].Name != "unordered" || res.Parts[1].Name != "per_key" || res.Parts[1].Messages < 200 {
		t.Errorf("%+v", res.Parts)
	}
	for _, n := range b.out {
		if n != 0 {
			t.Fatalf("keys are out: %v", b.out)
		}
	}
	// Two of one key at once.
	b = &broker{loose: func(n int) bool { return n >= 600 }}
	cfg = b.quick(Keys)
	cfg.For = 200 * time.Millisecond
	if res = mustRun(t, cfg); res.OutOfOrder == 0 || res.OK() {
		t.Errorf("messages of stuck keys came, and nothing is said:\n%s", res)
	}
	// What is lost behind a stuck key is missed too.
	b = new(broker)
	cfg = b.quick(Keys)
	cfg.For, cfg.drainStall = 200*time.Millisecond, busy
	b.keep = func(n int) bool { return n != 205 }
	if res = mustRun(t, cfg); res.Lost != 1 {
		t.Errorf("lost %d, want 1", res.Lost)
	}
	// Those that make keys stuck must come.
	b = &broker{hold: func() bool { return true }, keep: func(n int) bool { return n >= 20 }}
	if _, err := Run(t.Context(), b.quick(Keys)); err == nil || !strings.Contains(err.Error(), "only 0 of 20 came") {
		t.Error(err)
	}
}

func TestKeyQueuesAreDropped(t *testing.T) {
	b := new(broker)
	b.answer = func(int) error { return errRefusedForTest }
	if _, err := Run(t.Context(), b.quick(Keys)); err == nil || len(b.deleted) != 2 {
		t.Errorf("%v, deleted %v", err, b.deleted)
	}
}

func TestFairWorkload(t *testing.T) {
	b := new(broker)
	cfg := b.quick(Fair)
	cfg.Capacity, cfg.For = 500, 400*time.Millisecond
	res := mustRun(t, cfg)
	if !res.OK() || len(res.Parts) != 3 || len(b.waiting) > 0 {
		t.Fatalf("%d are left:\n%s", len(b.waiting), res)
	}
	// Half the capacity from 19 tenants in each of two turns of 400 ms, ten times the capacity from one in the second.
	calm, beside, flood := res.Parts[0], res.Parts[1], res.Parts[2]
	if calm.Messages < 20 || beside.Messages < 20 || flood.Messages < 10*beside.Messages || res.Ratio <= 0 || res.RatioP99 <= 0 {
		t.Errorf("%s", res)
	}
	if beside.Wait.P50 >= flood.Wait.P50 {
		t.Errorf("the flood waits less than the others:\n%s", res)
	}
}

func TestFlat(t *testing.T) {
	for _, c := range []struct {
		name                 string
		queued, queues, idle int
		created              int // beside an idle one a turn
	}{
		{"queued", 3000, 0, 0, 3},
		{"queues", 0, 50, 0, 52},
		{"fewer queues than consumers", 0, 2, 0, 4},
		{"connections", 0, 0, 70, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := new(broker)
			cfg := b.quick(Flat)
			cfg.Queued, cfg.Queues, cfg.Idle, cfg.Rounds, cfg.Consumers = c.queued, c.queues, c.idle, 0, 3
			cfg.For = 2 * time.Second // in each turn something is to be done with, however busy the machine
			cpu := time.Duration(0)
			cfg.ServerCPU = func() time.Duration { cpu += 50 * time.Millisecond; return cpu }
			res := mustRun(t, cfg)
			if !res.OK() || len(res.Parts) != 2 || len(b.waiting) > 0 || len(b.subs) > c.idle {
				t.Fatalf("%d messages and %d subscriptions are left:\n%s", len(b.waiting), len(b.subs), res)
			}
			// Little, much, little.
			base, loaded := res.Parts[0], res.Parts[1]
			if len(base.Runs) != 2 || len(base.CPU) != 2 || len(loaded.Runs) != 1 || len(loaded.CPU) != 1 || len(loaded.Left) != 1 || res.Ratio <= 0 || res.RatioCPU <= 0 {
				t.Errorf("%+v", res.Parts)
			}
			if want := max(c.queued, DefaultQueued); b.deepest < want {
				t.Errorf("%d messages were queued at once, want %d", b.deepest, want)
			}
			if n := int(b.open.Load()); n < c.idle || len(b.created) != c.created || len(b.deleted) != len(b.created) {
				t.Errorf("%d connections, %d queues created, %d deleted", n, len(b.created), len(b.deleted))
			}
			for _, says := range []string{"of the servers' CPU a message", loaded.Name} {
				if !strings.Contains(res.String(), says) {
					t.Errorf("%q is not in %s", says, res)
				}
			}
		})
	}
}

func TestMid(t *testing.T) {
	for _, c := range []struct {
		v    []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{4, 2}, 3}, {[]float64{9, 1, 2}, 2}, {[]float64{8, 1, 4, 2}, 3}} {
		if got := mid(c.v); got != c.want {
			t.Errorf("%v: %g, want %g", c.v, got, c.want)
		}
	}
}

func TestFlatFaults(t *testing.T) {
	// What is lost in a turn with little counts too.
	b := &broker{keep: func(n int) bool { return n != 5 }}
	cfg := b.quick(Flat)
	cfg.Queues, cfg.drainStall = 10, busy
	if res := mustRun(t, cfg); res.Lost != 1 || res.OK() {
		t.Errorf("lost %d, want 1", res.Lost)
	}
	// Queues go where a turn fails.
	b = new(broker)
	b.openErr = func(name string) error {
		if name == "bench-idle-3" {
			return errOpenForTest
		}
		return nil
	}
	cfg = b.quick(Flat)
	cfg.Idle = 10
	if _, err := Run(t.Context(), cfg); err == nil || len(b.deleted) != len(b.created) {
		t.Errorf("%v; created %v, deleted %v", err, b.created, b.deleted)
	}
}
