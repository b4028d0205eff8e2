package load

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/leaks"
	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

func TestMain(m *testing.M) { leaks.Main(m) }

func mustRun(t *testing.T, cfg Config) *Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	res, err := Run(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// Each workload against a broker that does everything right.
func TestWorkloads(t *testing.T) {
	for _, w := range []string{W1, W2, W3, W4, W5} {
		t.Run(w, func(t *testing.T) {
			var b *broker
			var res *Result
			for longer := time.Duration(1); longer == 1 || res.Messages == 0 && longer <= 64; longer *= 4 { // a machine may stand still for all of a short time
				b = new(broker)
				cpu := time.Duration(0)
				cfg := b.quick(w)
				cfg.For *= longer
				cfg.ServerCPU = func() time.Duration { cpu += 50 * time.Millisecond; return cpu }
				gc := time.Duration(0)
				cfg.ServerGC = func() (time.Duration, bool) { gc += 12500 * time.Microsecond; return gc, true }
				res = mustRun(t, cfg)
			}
			if !res.OK() || !res.Safe() {
				t.Errorf("not OK:\n%s", res)
			}
			if res.Messages == 0 || res.Seconds < 0.01 || res.Rate != float64(res.Messages)/res.Seconds {
				t.Errorf("%d messages in %g s, %g/s", res.Messages, res.Seconds, res.Rate)
			}
			if c := res.Confirm; c == nil || c.P50 <= 0 || c.P50 > c.P99 || c.P99 > c.P999 || c.P999 > c.Max {
				t.Errorf("confirm %+v", c)
			}
			if e := res.EndToEnd; (e != nil) != (w == W3 || w == W4) {
				t.Errorf("e2e %+v", e)
			}
			if (res.Late != nil) != (w == W4) {
				t.Errorf("late %+v", res.Late)
			}
			if res.ServerCPU == nil || *res.ServerCPU != 50_000/float64(res.Messages) {
				t.Errorf("CPU %v for %d messages", res.ServerCPU, res.Messages)
			}
			if res.ServerGC == nil || *res.ServerGC != 0.25 {
				t.Errorf("a share of %v is garbage collection, want a quarter", res.ServerGC)
			}
			if w == W5 && b.most.Load() != 1 {
				t.Errorf("%d enqueues at once", b.most.Load())
			}
			if most := b.most.Load(); most > 16 {
				t.Errorf("%d enqueues at once; outstanding is 16", most)
			}
			if len(b.created) != 1 || len(b.deleted) != 1 || b.created[0] != b.deleted[0] {
				t.Errorf("created %v, deleted %v", b.created, b.deleted)
			}
			if len(b.waiting) > 0 && w != W1 && w != W5 {
				t.Errorf("%d messages are left", len(b.waiting))
			}
		})
	}
}

func TestPacedRate(t *testing.T) {
	b := new(broker)
	cfg := b.quick(W4)
	cfg.Rate, cfg.For = 1000, 400*time.Millisecond
	began := time.Now()
	mustRun(t, cfg)
	due := int(time.Since(began).Seconds()*cfg.Rate) + 1
	// Never ahead of its time; behind only as far as the machine's other load keeps it from running.
	if b.count > due || b.count < 100 {
		t.Errorf("%d messages; up to %d were due", b.count, due)
	}
}

// A stall is charged with every message that was due during it, though few were out: no coordinated omission.
func TestStallIsCharged(t *testing.T) {
	b := new(broker)
	const stall = 250 * time.Millisecond
	var once sync.Once
	b.before = func(n int) func() {
		if n < 100 {
			return func() {}
		}
		return func() {
			once.Do(func() {
				timer := time.NewTimer(stall)
				<-timer.C
			})
		}
	}
	cfg := b.quick(W4)
	cfg.Producers, cfg.Outstanding, cfg.Rate, cfg.WarmUp, cfg.For = 1, 4, 1000, -1, 500*time.Millisecond
	res := mustRun(t, cfg)
	if res.Confirm.Max < 240 {
		t.Errorf("longest confirmation %g ms, stall %s", res.Confirm.Max, stall)
	}
	// 250 of 500 messages were due in the stall and later, evenly spread over it, so the median one waited long; had the
	// clock started at sending, four messages would have.
	if res.Confirm.P50 < 5 && res.Confirm.P99 < 100 {
		t.Errorf("p50 %g ms, p99 %g ms: what was due during the stall is not charged", res.Confirm.P50, res.Confirm.P99)
	}
	if !res.OK() {
		t.Error(res)
	}
	if res.LongestGapMS < 200 {
		t.Errorf("longest gap %g ms", res.LongestGapMS)
	}
}

// busy is how long nothing may move on a machine that is busy: drainStall of tests in which something is lost, and of no others.
const busy = 2 * time.Second

// Every kind of wrong is counted as what it is.
func TestFaultsAreSeen(t *testing.T) {
	isSixth := func(n int) bool { return n == 5 }
	for _, c := range []struct {
		name string
		set  func(*broker)
		want Result // its fault counts
	}{
		{"a confirmed message is lost", func(b *broker) { b.keep = func(n int) bool { return n != 5 } }, Result{Lost: 1}},
		{"a message comes twice", func(b *broker) { b.again = isSixth }, Result{Duplicates: 1}},
		{"a body changes", func(b *broker) {
			b.change = func(n int, body []byte) {
				if n == 5 {
					body[100] ^= 1
				}
			}
		}, Result{Unexpected: 1, Errors: 1, Lost: 1}},
		{"a body becomes another message's", func(b *broker) {
			var first []byte
			b.change = func(n int, body []byte) {
				if n == 4 {
					first = append(first, body...)
				}
				if n == 5 {
					copy(body, first)
				}
			}
		}, Result{Duplicates: 1, Lost: 1}},
		{"a body of another run", func(b *broker) {
			b.change = func(n int, body []byte) {
				if n == 5 {
					stamp(body, 1, 5, 0)
				}
			}
		}, Result{Unexpected: 1, Errors: 1, Lost: 1}},
		{"an enqueue is refused", func(b *broker) {
			b.answer = func(n int) error {
				if n == 5 {
					return errRefusedForTest
				}
				return nil
			}
		}, Result{Errors: 1}},
		{"an enqueue is refused and delivered", func(b *broker) {
			b.storeFailed = true
			b.answer = func(n int) error {
				if n == 5 {
					return errRefusedForTest
				}
				return nil
			}
			hold := true
			b.before = func(n int) func() { // deliver after the answers
				return func() {
					if n == 10 {
						b.mu.Lock()
						hold = false
						b.mu.Unlock()
					}
				}
			}
			b.hold = func() bool { return hold }
		}, Result{Errors: 2, Unexpected: 1}},
		{"an outcome is unknown, the message is there", func(b *broker) {
			b.storeFailed = true
			b.answer = func(n int) error {
				if n == 5 {
					return errUnknownForTest
				}
				return nil
			}
		}, Result{Errors: 1, Unknown: 1, Recovered: 1}},
		{"an outcome is unknown, the message is not there", func(b *broker) {
			b.answer = func(n int) error {
				if n == 5 {
					return errUnknownForTest
				}
				return nil
			}
		}, Result{Errors: 1, Unknown: 1}},
		{"an ack fails", func(b *broker) {
			b.ackErr = func(n int) error {
				if n == 5 {
					return errRefusedForTest
				}
				return nil
			}
		}, Result{Errors: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := new(broker)
			c.set(b)
			cfg := b.quick(W3)
			cfg.drainStall = busy
			res := mustRun(t, cfg)
			got := Result{Errors: res.Errors, Unknown: res.Unknown, Recovered: res.Recovered, Lost: res.Lost, Duplicates: res.Duplicates, Unexpected: res.Unexpected}
			if !sameFaults(got, c.want) {
				t.Errorf("got  %+v\nwant %+v\n%s", got, c.want, res)
			}
			if res.OK() {
				t.Error("OK all the same")
			}
			if want := c.want.Lost == 0 && c.want.Unexpected == 0; res.Safe() != want {
				t.Errorf("safe %t", res.Safe())
			}
			if (res.Errors > 0) != (len(res.Samples) > 0) {
				t.Errorf("%d errors, samples %q", res.Errors, res.Samples)
			}
		})
	}
}

// A client that answers an enqueue twice is found out.
func TestSecondAnswer(t *testing.T) {
	b := new(broker)
	cfg, err := b.quick(W1).withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	r := &run{cfg: cfg, poke: make(chan struct{}, 1), room: make(chan struct{}, 1), late: newLatencies(), fatal: func(error) {}}
	ps, err := r.openProducers(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	defer closeProducers(ps)
	s := <-ps[0].free
	s.fill(0)
	s.confirmed(client.Receipt{}, nil)
	s.confirmed(client.Receipt{}, nil)
	var res Result
	r.close(&res)
	if res.Unexpected != 1 || r.completed.Load() != 1 || len(ps[0].free) != cfg.Outstanding {
		t.Errorf("unexpected %d, completed %d, %d slots free of %d", res.Unexpected, r.completed.Load(), len(ps[0].free), cfg.Outstanding)
	}
}

func sameFaults(a, b Result) bool {
	return a.Errors == b.Errors && a.Unknown == b.Unknown && a.Recovered == b.Recovered && a.Lost == b.Lost && a.Duplicates == b.Duplicates &&
		a.Unexpected == b.Unexpected
}

// Producers of W3 wait when consumers fall behind.
func TestBacklogIsBounded(t *testing.T) {
	b := new(broker)
	const backlog = 40
	released := time.Time{}
	b.hold = func() bool { // until the bound has been reached for a while
		if len(b.waiting) >= backlog && released.IsZero() {
			released = time.Now().Add(30 * time.Millisecond)
			time.AfterFunc(40*time.Millisecond, b.dispatch)
		}
		return released.IsZero() || time.Now().Before(released)
	}
	cfg := b.quick(W3)
	cfg.Backlog, cfg.Outstanding = backlog, 64
	res := mustRun(t, cfg)
	if released.IsZero() {
		t.Fatal("the bound was not reached")
	}
	if most := backlog + cfg.Producers; b.deepest > most {
		t.Errorf("%d messages waited; the bound is %d", b.deepest, backlog)
	}
	if !res.OK() {
		t.Error(res)
	}
}

func TestCancelEndsARun(t *testing.T) {
	for _, w := range Workloads() {
		t.Run(w, func(t *testing.T) {
			b := new(broker)
			cfg := b.quick(w)
			cfg.For, cfg.WarmUp, cfg.Lead = time.Hour, time.Hour, time.Hour
			cfg.Preload, cfg.Count = 1<<20, 1<<20
			if w == Queued { // it ends before it looks at them
				cfg.Cluster = &proc.Cluster{Nodes: []*proc.Node{{}, {}}}
				cfg.ServerRSS = func() []int64 { return []int64{1, 1} }
			}
			ctx, cancel := context.WithCancel(context.Background())
			seen := make(chan struct{})
			var once sync.Once
			b.before = func(n int) func() {
				if n == 10 {
					once.Do(func() { close(seen) })
				}
				return func() {}
			}
			go func() {
				<-seen
				cancel()
			}()
			_, err := Run(ctx, cfg)
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			if len(b.deleted) != len(b.created) || len(b.deleted) == 0 {
				t.Errorf("created %v, deleted %v: a queue of a cancelled run stays", b.created, b.deleted)
			}
		})
	}
}

func TestTooManyErrorsEndARun(t *testing.T) {
	b := &broker{answer: func(int) error { return errUnknownForTest }}
	cfg := b.quick(W1)
	cfg.For = time.Hour
	if _, err := Run(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), "operations failed, first: enqueue: timeout: lost") {
		t.Errorf("%v", err)
	}
}

func TestRefusalToConnect(t *testing.T) {
	for _, who := range []string{"bench-admin", "bench-producer-1", "bench-consumer-0"} {
		b := &broker{openErr: func(name string) error {
			if name == who {
				return errOpenForTest
			}
			return nil
		}}
		if _, err := Run(context.Background(), b.quick(W3)); !errors.Is(err, errOpenForTest) {
			t.Errorf("%s: %v", who, err)
		}
	}
}

func TestPreloadTooSmall(t *testing.T) {
	b := new(broker)
	cfg := b.quick(W2)
	cfg.Preload, cfg.WarmUp = 10, 10*time.Second
	if _, err := Run(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), "preload more") {
		t.Errorf("%v", err)
	}
	cfg.WarmUp, cfg.For, cfg.Preload = -1, 20*time.Second, 100_000 // which no machine drains before it is measured
	began := time.Now()
	res := mustRun(t, cfg)
	if res.Messages == 0 || !res.OK() || time.Since(began) > 15*time.Second {
		t.Errorf("after %s: %s", time.Since(began), res)
	}
}

func TestConfigRefuses(t *testing.T) {
	good := func() Config { return Config{Workload: W1, Addrs: []string{"127.0.0.1:1"}} }
	for _, c := range []struct {
		name string
		set  func(*Config)
		says string
	}{
		{"workload", func(c *Config) { c.Workload = "W9" }, `workload "W9": one of W1, W2, W3, W4, W5, delayed, priority, keys, fair, flat, queued expected`},
		{"no address", func(c *Config) { c.Addrs = nil }, "no address"},
		{"size", func(c *Config) { c.Size = 31 }, "size is 31; 32 to"},
		{"large size", func(c *Config) { c.Size = 1 << 25 }, "size is"},
		{"for", func(c *Config) { c.For = time.Millisecond }, "for (seconds)"},
		{"producers", func(c *Config) { c.Producers = 257 }, "producers is 257; 1 to 256"},
		{"consumers", func(c *Config) { c.Workload, c.Consumers = W3, -1 }, "consumers is -1; 1 to 256"},
		{"outstanding", func(c *Config) { c.Outstanding = -1 }, "outstanding is -1"},
		{"window", func(c *Config) { c.Window = 10001 }, "window is 10001; 1 to 10000"},
		{"rate", func(c *Config) { c.Workload, c.Rate = W4, -5 }, "rate is -5"},
		{"preload", func(c *Config) { c.Preload = -1 }, "preload is -1"},
		{"backlog", func(c *Config) { c.Backlog = -1 }, "backlog is -1"},
		{"count", func(c *Config) { c.Workload, c.Count = Delayed, -1 }, "count is -1"},
		{"due rate", func(c *Config) { c.Workload, c.DueRate = Delayed, -1 }, "due rate is -1; 1 to"},
		{"lead", func(c *Config) { c.Workload, c.Lead = Delayed, -1 }, "lead (seconds) is -1e-09; 0.01 to"},
		{"capacity", func(c *Config) { c.Workload, c.Capacity = Priorities, -1 }, "capacity is -1"},
		{"keys", func(c *Config) { c.Workload, c.Keys = Keys, -1 }, "keys is -1"},
		{"one key", func(c *Config) { c.Workload, c.Keys = Keys, 1 }, "keys is 1; 2 to"},
		{"stuck", func(c *Config) { c.Workload, c.Stuck = Keys, 91 }, "stuck (per cent) is 91; 0 to 90"},
		{"rounds", func(c *Config) { c.Workload, c.Rounds = Keys, 101 }, "rounds is 101; 1 to 100"},
		{"tenants", func(c *Config) { c.Workload, c.Tenants = Fair, 1 }, "tenants is 1; 2 to"},
		{"flood", func(c *Config) { c.Workload, c.Flood = Fair, 100 }, "flood is 100; 1 to 99"},
		{"no nodes to kill", func(c *Config) { c.Workload = Queued }, "a cluster of two or more that was started for it"},
		{"nothing flat", func(c *Config) { c.Workload = Flat }, "nothing to compare with: one of queued (above 1000)"},
		{"queued", func(c *Config) { c.Workload, c.Queued = Flat, 999 }, "queued is 999; 1000 to"},
		{"queues", func(c *Config) { c.Workload, c.Queues = Flat, -1 }, "queues is -1; 1 to 100000"},
		{"subscriptions", func(c *Config) { c.Workload, c.Queues, c.Consumers = Flat, 2001, 2 }, "queues is 2001; 2 consumers can have 2000"},
		{"connections", func(c *Config) { c.Workload, c.Idle = Flat, -1 }, "connections is -1; 0 to 50000"},
		{"queue", func(c *Config) { c.Queue = "a b" }, `"a b" is no queue name`},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := good()
			c.set(&cfg)
			if _, err := Run(context.Background(), cfg); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v; want %q", err, c.says)
			}
		})
	}
}

// The JSON that scripts rely on.
func TestResultJSON(t *testing.T) {
	cpu := 41.5
	for _, c := range []struct {
		name string
		res  Result
		want string
	}{
		{"all of it", Result{Workload: W3, Size: 256, Nodes: 3, Messages: 1000, Seconds: 10, Rate: 100, Confirm: &Quantiles{1, 2, 3, 4},
			EndToEnd: &Quantiles{5, 6, 7, 8}, ServerCPU: &cpu},
			`{"workload":"W3","size":256,"nodes":3,"messages":1000,"seconds":10,"msgs_per_s":100,"confirm_ms":{"p50":1,"p99":2,"p999":3,"max":4},"e2e_ms":{"p50":5,"p99":6,"p999":7,"max":8},"server_cpu_us_per_msg":41.5,"errors":0,"unknown":0,"recovered":0,"lost":0,"duplicates":0,"unexpected":0,"longest_gap_ms":0,"gap_after_s":0}`},
		{"what was not measured", Result{Workload: W1, Errors: 1, Samples: []string{"x"}, Runs: []float64{1, 2}},
			`{"workload":"W1","size":0,"nodes":0,"messages":0,"seconds":0,"msgs_per_s":0,"confirm_ms":null,"e2e_ms":null,"server_cpu_us_per_msg":null,"errors":1,"unknown":0,"recovered":0,"lost":0,"duplicates":0,"unexpected":0,"longest_gap_ms":0,"gap_after_s":0,"runs":[1,2],"error_samples":["x"]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := json.Marshal(&c.res)
			if err != nil || string(got) != c.want {
				t.Errorf("%v\n got  %s\n want %s", err, got, c.want)
			}
		})
	}
}

func TestRepeatTakesTheMedianRun(t *testing.T) {
	b := new(broker)
	seen := 0
	res, err := Repeat(context.Background(), b.quick(W1), 3, func(*Result) { seen++ })
	if err != nil || seen != 3 || len(res.Runs) != 3 {
		t.Fatalf("%v, %d results, runs %v", err, seen, res.Runs)
	}
	below, above := 0, 0
	for _, r := range res.Runs {
		if r < res.Rate {
			below++
		}
		if r > res.Rate {
			above++
		}
	}
	if below != 1 || above != 1 {
		t.Errorf("%g is not the median of %v", res.Rate, res.Runs)
	}
	if _, err := Repeat(context.Background(), b.quick(W1), 0, nil); err == nil {
		t.Error("no repetitions were accepted")
	}
}

func TestMedianHidesNoFault(t *testing.T) {
	m := median([]*Result{
		{Workload: W3, Rate: 3, Lost: 1, Samples: []string{"a", "b", "c"}},
		{Workload: W3, Rate: 1, Errors: 2, Samples: []string{"d", "e", "f"}},
		{Workload: W3, Rate: 2, Duplicates: 4, Unexpected: 5, Unknown: 6, Recovered: 7},
		{Workload: W3, Rate: 4},
	})
	if m.Rate != 2 || m.Lost != 1 || m.Errors != 2 || m.Duplicates != 4 || m.Unexpected != 5 || m.Unknown != 6 || m.Recovered != 7 || len(m.Samples) != maxSamples {
		t.Errorf("%+v", m)
	}
	m = median([]*Result{
		{Workload: W5, Rate: 10, Confirm: &Quantiles{P50: 9}},
		{Workload: W5, Rate: 30, Confirm: &Quantiles{P50: 5}},
		{Workload: W5, Rate: 20, Confirm: &Quantiles{P50: 1}},
	})
	if m.Confirm.P50 != 5 {
		t.Errorf("W5: the run with p50 %g was taken", m.Confirm.P50)
	}
}

func TestCPUOf(t *testing.T) {
	if _, err := CPUOf(os.Getpid(), 1<<30); err == nil {
		t.Error("a process that does not exist was accepted")
	}
	cpu, err := CPUOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	before, began := cpu(), time.Now()
	x := uint64(1)
	for cpu() < before+2*tick {
		for range 1 << 20 {
			x = x*0x9E3779B97F4A7C15 + 1
		}
		if time.Since(began) > 10*time.Second {
			t.Fatalf("ten seconds of work cost no CPU time (%d)", x)
		}
	}
}

func TestStartSelfCleansUp(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct{ binary, says string }{
		{"/no/such/quorate", "quorate binary"},
		{"/bin/false", "ended before"},
	} {
		if _, err := StartSelf(context.Background(), c.binary, 3, dir); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %q", c.binary, err, c.says)
		}
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestInMemory(t *testing.T) {
	if !inMemory("/dev/shm") {
		t.Error("/dev/shm, a tmpfs on every Linux, counts as a disk")
	}
	if inMemory("/proc") || inMemory("/no/such/folder") {
		t.Error("what is no tmpfs counts as one")
	}
}
