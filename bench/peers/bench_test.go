package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/load"
)

// clean fails the test if processes or files of a fake are left.
func clean(t *testing.T, b *bench, f *fake) {
	t.Helper()
	for _, p := range f.ps {
		if p.Running() {
			t.Errorf("%s still runs", p.Name)
		}
	}
	if left, err := os.ReadDir(b.e.data); err != nil || len(left) > 0 {
		t.Errorf("files are left: %v (%v)", left, err)
	}
}

func TestEveryWorkloadOfASoundSystem(t *testing.T) {
	t.Parallel()
	b := newBench(t, allWorkloads...)
	var f *fake
	if _, err := b.all(context.Background(), []system{fakeSystem("sound", &f, nil)}); err != nil {
		t.Fatal(err)
	}
	clean(t, b, f)
	var done []string
	for _, m := range b.report.Measurements {
		done = append(done, m.Workload)
		if len(m.Faults) > 0 {
			t.Errorf("%s has faults: %q", m.Workload, m.Faults)
		}
		for i := range metrics {
			if x := &metrics[i]; x.workload == m.Workload {
				if v, ok := x.of(m); !ok || v <= 0 && !strings.Contains(x.key, "gap") {
					t.Errorf("%s is %g (%v)", x.key, v, ok)
				}
			}
		}
	}
	slices.Sort(done)
	if want := slices.Sorted(slices.Values(allWorkloads)); !slices.Equal(done, want) {
		t.Errorf("measured %v, want %v", done, want)
	}
}

// TestFloor: both floors are measured, each at its pace, once a repeat, and only where there is one; what fails is a fault.
func TestFloor(t *testing.T) {
	t.Parallel()
	b := newBench(t, w4Floor, w5Floor)
	peer, bad := fakeSystem("peer", nil, nil), fakeSystem("bad", nil, nil)
	peer.floor = nil
	bad.floor = func(context.Context, *env, *options, float64) (*load.Result, error) {
		return nil, errors.New("no leader")
	}
	if _, err := b.all(context.Background(), []system{fakeSystem("sound", nil, nil), peer, bad}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range b.report.Measurements {
		p50 := 0.0
		if m.Load != nil {
			p50 = m.Load.Confirm.P50
		}
		got = append(got, fmt.Sprintf("%s %s %g %q", m.System, m.Workload, p50, m.Faults))
	}
	if want := []string{
		fmt.Sprintf("sound W4-FLOOR %g []", 1+b.o.rate), "sound W5-FLOOR 1 []", `bad W4-FLOOR 0 ["no leader"]`, `bad W5-FLOOR 0 ["no leader"]`,
	}; !slices.Equal(got, want) {
		t.Errorf("measured\n%q\nwant\n%q", got, want)
	}
}

// TestFaultsAreFound runs systems that cheat.
func TestFaultsAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, workload string
		change         func(*fake)
		want           string // of a bound that is to be passed, after a second; else bounds are those of newBench
	}{
		{"a confirmed message is not stored", load.W1, func(f *fake) { f.keep = func(n int) bool { return n != 5 } }, "messages are to be left in the queue"},
		{"the system counts what it has not", load.W1, func(f *fake) { f.count = func(n int64) int64 { return n + 1 } }, "messages are to be left in the queue"},
		{"bytes change", load.W1, func(f *fake) { f.alter = func(n int, b []byte) []byte { return damaged(b, n == 7) } }, "checksum"},
		{"bytes go missing", load.W5, func(f *fake) { f.alter = func(n int, b []byte) []byte { return b[:len(b)-1] } }, "255 bytes was received; all have 256"},
		{"a message comes twice", load.W1, func(f *fake) { f.alter = repeated(3) }, "was received twice"},
		{"acks do not remove", load.W2, func(f *fake) { f.count = func(n int64) int64 { return 3 } }, "0 messages are to be left in the queue"},
		{"confirmed and gone after the kill", w6, func(f *fake) { f.keep = func(n int) bool { return n%100 != 0 } }, "confirmed messages are missing"},
		{"not back after the kill", w6, func(f *fake) { f.down = killed(f) }, "last failure: no leader"},
		{"a long queue is shorter", w7, func(f *fake) { f.keep = func(n int) bool { return n != 400 } }, "500 messages are to be left"},
		{"lost in the restart", w7, func(f *fake) { f.count = restarted(f, func(n int64) int64 { return n - 1 }) }, "501 to 501 messages are to be in the queue"},
		{"does not start", load.W4, func(f *fake) { f.ready = func(context.Context) error { return errors.New("not yet") } }, "did not start within"},
		{"ends at once", load.W4, func(f *fake) {
			f.ps[0].Args = []string{"0"}
			f.ready = func(context.Context) error { return errors.New("not yet") }
		}, "fake1 ended before it was ready"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, c.workload)
			switch c.want {
			case "last failure: no leader":
				b.within.back = time.Second
			case "did not start within":
				b.within.start = time.Second
			}
			var f *fake
			if _, err := b.all(context.Background(), []system{fakeSystem("bad", &f, c.change)}); err != nil {
				t.Fatal(err)
			}
			clean(t, b, f)
			ms := b.report.Measurements
			if len(ms) != 1 || b.report.faults() != 1 {
				t.Fatalf("%d measurements, %d with faults; one, with faults, expected", len(ms), b.report.faults())
			}
			if got := strings.Join(ms[0].Faults, "\n"); !strings.Contains(got, c.want) {
				t.Errorf("the fault is %q; %q expected in it", got, c.want)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		res  load.Result
		want string
	}{
		{load.Result{Recovered: 1}, ""},
		{load.Result{Lost: 1}, "lost 1, "},
		{load.Result{Duplicates: 2}, "duplicates 2, "},
		{load.Result{Unexpected: 3}, "unexpected 3, "},
		{load.Result{Unknown: 4}, "unknown 4, "},
		{load.Result{Errors: 5, Samples: []string{"a", "b"}}, "errors 5 a; b"},
	} {
		m := &measurement{Load: &c.res}
		m.judge()
		if got := strings.Join(m.Faults, "\n"); got != c.want && (c.want == "" || !strings.Contains(got, c.want)) {
			t.Errorf("%+v: faults %q, want %q", c.res, got, c.want)
		}
	}
}

func damaged(b []byte, now bool) []byte {
	if now {
		b[100] ^= 1
	}
	return b
}

// repeated stores the n-th message in place of the one after it too.
func repeated(n int) func(int, []byte) []byte {
	var kept []byte
	return func(i int, b []byte) []byte {
		switch i {
		case n:
			kept = bytes.Clone(b)
		case n + 1:
			return kept
		}
		return b
	}
}

// killed fails when the leader does not run any more.
func killed(f *fake) func() error {
	var was atomic.Bool
	return func() error {
		if f.ps[1].Running() {
			was.Store(true)
		} else if was.Load() {
			return errors.New("no leader")
		}
		return nil
	}
}

// restarted changes a count when the first process is not the one it was.
func restarted(f *fake, change func(int64) int64) func(int64) int64 {
	first := 0
	return func(n int64) int64 {
		pid := f.ps[0].Pid()
		if first == 0 {
			first = pid
		}
		if pid != first {
			return change(n)
		}
		return n
	}
}

// TestOrder looks at who is measured when: each repeat begins with another system, and what fails does not end the run.
func TestOrder(t *testing.T) {
	t.Parallel()
	b := newBench(t, load.W5)
	b.o.duration, b.o.warmUp, b.o.repeat = 150*time.Millisecond, 0, 3
	bad := fakeSystem("b", nil, nil)
	bad.make = func(*env, string) (target, error) { return nil, errors.New("no such file") }
	if _, err := b.all(context.Background(), []system{fakeSystem("a", nil, nil), bad, fakeSystem("c", nil, nil)}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range b.report.Measurements {
		got = append(got, fmt.Sprintf("%d%s", m.Repeat, m.System))
	}
	if want := "1a 1b 1c 2b 2c 2a 3c 3a 3b"; strings.Join(got, " ") != want {
		t.Errorf("measured %v, want %s", got, want)
	}
	if n := b.report.faults(); n != 3 {
		t.Errorf("%d measurements have faults, 3 expected", n)
	}
}

// TestInterrupt ends a run in the middle: an error, and nothing is left.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	b := newBench(t, load.W1)
	b.o.duration = time.Hour
	ctx, cancel := context.WithCancel(context.Background())
	var last atomic.Pointer[fake]
	s := fakeSystem("a", nil, nil)
	s.make = func(_ *env, dir string) (target, error) {
		f := newFake(dir)
		last.Store(f)
		return f, nil
	}
	go func() {
		defer cancel()
		_ = poll(ctx, time.Millisecond, "load", func() error {
			if f := last.Load(); f == nil || f.total() < 100 {
				return errors.New("not yet")
			}
			return nil
		})
	}()
	if _, err := b.all(ctx, []system{s}); !errors.Is(err, context.Canceled) {
		t.Errorf("the run ended with %v", err)
	}
	clean(t, b, last.Load())
}

// TestCutShort interrupts a run in its second repeat, and has another that may not take long: what is whole is kept.
func TestCutShort(t *testing.T) {
	t.Parallel()
	short := func(t *testing.T) *bench {
		b := newBench(t, load.W5)
		b.o.duration, b.o.warmUp, b.o.repeat, b.report.Repeat = 150*time.Millisecond, 0, 3, 3
		return b
	}
	check := func(t *testing.T, b *bench, cut, err error, want string) {
		t.Helper()
		if err != nil || cut == nil || !strings.Contains(cut.Error(), want) || b.report.CutShort != cut.Error() {
			t.Errorf("cut %v (report: %q), error %v; want %q", cut, b.report.CutShort, err, want)
		}
		if n := len(b.report.Measurements); n != 2 || b.report.Repeat != 1 || b.report.faults() != 0 {
			t.Errorf("%d measurements of %d repeats, %d faults; 2 of 1 and none expected", n, b.report.Repeat, b.report.faults())
		}
	}
	t.Run("interrupted", func(t *testing.T) {
		b := short(t)
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		starts := 0
		s := fakeSystem("a", nil, func(*fake) {
			if starts++; starts == 2 {
				cancel()
			}
		})
		cut, err := b.all(ctx, []system{s, fakeSystem("b", nil, nil)})
		check(t, b, cut, err, "cut short after 1 of 3 repeats: ")
	})
	t.Run("too long", func(t *testing.T) {
		b := short(t)
		b.o.within = time.Millisecond
		cut, err := b.all(context.Background(), []system{fakeSystem("a", nil, nil), fakeSystem("b", nil, nil)})
		check(t, b, cut, err, "would exceed --within 1ms")
	})
}

// TestStuck has a system that never answers some call: the workload's time ends it, and the next one is told.
func TestStuck(t *testing.T) {
	t.Parallel()
	b := newBench(t, load.W5, load.W1)
	b.o.duration, b.within.workload = 500*time.Millisecond, 2*time.Second
	var f *fake
	_, err := b.all(context.Background(), []system{fakeSystem("stuck", &f, func(f *fake) {
		f.down = func() error {
			for f.total() > 20 && f.ps[0].Running() { // a socket of a living server that never sends
				if err := pause(context.Background(), time.Millisecond); err != nil {
					return err
				}
			}
			if !f.ps[0].Running() {
				return errors.New("connection reset")
			}
			return nil
		}
	})})
	if err != nil {
		t.Fatal(err)
	}
	clean(t, b, f)
	if len(b.report.Measurements) != 2 || b.report.faults() != 2 {
		t.Fatalf("%d measurements, %d with faults; 2 and 2 expected", len(b.report.Measurements), b.report.faults())
	}
	for i, want := range []string{"not done within", "connection reset"} {
		if got := strings.Join(b.report.Measurements[i].Faults, "\n"); !strings.Contains(got, want) {
			t.Errorf("fault %d is %q; %q expected in it", i, got, want)
		}
	}
}

func TestFind(t *testing.T) {
	t.Parallel()
	here := system{name: "here", title: "Here", find: func(*env) (string, error) { return "1.2", nil }}
	gone := system{name: "gone", title: "Gone", find: func(*env) (string, error) { return "", errors.New("not installed (scripts/setup-peers)") }}
	for _, c := range []struct {
		name    string
		systems []system
		byName  bool
		found   int
		log     string
		err     string
	}{
		{"all there", []system{here, here}, false, 2, "", ""},
		{"one missing", []system{here, gone}, false, 1, "gone is left out: not installed (scripts/setup-peers)\n", ""},
		{"one missing that was named", []system{here, gone}, true, 0, "", "gone: not installed (scripts/setup-peers)"},
		{"the first is missing", []system{gone, here}, false, 0, "", "gone: not installed (scripts/setup-peers)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			r := &report{}
			found, err := r.find(&env{}, &options{systems: c.systems, byName: c.byName}, &log)
			if fmt.Sprint(err) != c.err && (err != nil || c.err != "") {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if len(found) != c.found || log.String() != c.log {
				t.Errorf("%d found, said %q; want %d and %q", len(found), log.String(), c.found, c.log)
			}
			if err == nil && len(r.Systems)+len(r.LeftOut) != len(c.systems) {
				t.Errorf("the report has %v and %v", r.Systems, r.LeftOut)
			}
		})
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		err  string
	}{
		{"", ""},
		{"--for 10s --repeat 5 --size 256", ""},
		{"--systems redis,quorate --workloads w1,W7", ""},
		{"--systems kafka", `there is no system "kafka": all, or some of quorate,jetstream,jetstream-lazy,rabbitmq,redis expected`},
		{"--workloads W8", `there is no workload "W8", want some of W1,W2,W3,W4,W4-FLOOR,W5,W5-FLOOR,W6,W7`},
		{"W1", `"W1" is no flag, and nothing else is expected`},
		{"--size 31", "size is 31; 32 to 524288 are allowed"},
		{"--repeat 0", "repeat is 0; 1 to 100 are allowed"},
		{"--for 0s", "for (seconds) is 0; 0.1 to 3600 are allowed"},
		{"--rate NaN", "rate is NaN; 1 to 1e+06 are allowed"},
		{"--warm-up -1s", "warm-up (seconds) is -1; 0 to 600 are allowed"},
		{"--queued 0", "queued is 0; 1 to 2e+07 are allowed"},
		{"--queued-repeat 0", "queued-repeat is 0; 1 to 100 are allowed"},
		{"--readme f --out=", "--readme shows the chart, which --out is to be a folder for"},
		{"--preload 0", "preload is 0; 1 to 1e+07 are allowed"},
	} {
		t.Run(c.args, func(t *testing.T) {
			o, err := parse(strings.Fields(c.args))
			if c.err == "" {
				if err != nil {
					t.Fatal(err)
				}
				if o.systems[0].name != quorateSystem.name {
					t.Errorf("the first system is %s", o.systems[0].name)
				}
				return
			}
			if err == nil || err.Error() != c.err {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

func TestDataFolder(t *testing.T) {
	t.Parallel()
	if !inMemory("/dev/shm") {
		t.Fatal("/dev/shm is not in memory on this machine")
	}
	dir, err := dataFolder("/dev/shm")
	if err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("a folder in memory was taken: %s (%v)", dir, err)
	}
	if left, _ := filepath.Glob("/dev/shm/quorate-peers-*"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestQuote(t *testing.T) {
	t.Parallel()
	r := example()
	for _, c := range []struct{ name, text, want, err string }{
		{"both marks", "a\n" + quoteBegin + "\nold\n" + quoteEnd + "\nb", "a\n" + quoteBegin + "\n\n" + r.short() + "\n![Quorate and its peers](out/results.svg)\n" + quoteEnd + "\nb", ""},
		{"no marks", "a", "a", "has no part between"},
		{"no end", quoteBegin + "a", quoteBegin + "a", "has no part between"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "f.md")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			err := r.quote(path, filepath.Join(dir, "out"))
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if b, _ := os.ReadFile(path); string(b) != c.want {
				t.Errorf("the file is %q, want %q", b, c.want)
			}
		})
	}
}

func TestProcField(t *testing.T) {
	t.Parallel()
	const table = "processor\t: 0\nmodel name\t: Some   CPU @ 2: GHz\nMemTotal:       24000 kB\nmodel name\t: another\n"
	for name, want := range map[string]string{"model name": "Some CPU @ 2: GHz", "MemTotal": "24000 kB", "processor": "0", "nothing": "unknown"} {
		if got := procField(table, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestInspection(t *testing.T) {
	t.Parallel()
	in := &inspection{size: 64, seen: make(map[uint64]bool)}
	if err := in.look(load.NewBody(7, 1, 64)); err != nil {
		t.Error(err)
	}
	if err := in.look(load.NewBody(7, 1, 64)); err == nil {
		t.Error("a message was taken twice")
	}
	if err := in.look(load.NewBody(8, 2, 64)); err == nil {
		t.Error("a message of another run was taken")
	}
	in.many = true
	if err := in.look(load.NewBody(7, 1, 64)); err != nil || in.twos != 2 || len(in.seen) != 1 {
		t.Errorf("%v; %d repeated, %d seen; 2 and 1 expected", err, in.twos, len(in.seen))
	}
}
