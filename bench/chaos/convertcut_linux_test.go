package chaos

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/quorate/quorate/bench/chaos/forgetfs"
	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

// The power is cut before one after the other of the calls of a conversion of the log store: the node starts on what is left, the old log
// or the new one, with everything that was confirmed, and a second conversion comes to its end. (L5, G1)
func TestPowerCutsOfAConversion(t *testing.T) {
	rng := draw(t)
	bin := chaosBinary(t)
	f, cl := startForgetful(t, bin, 1) // whatever log store is there, it takes
	n, l := f.Nodes[0], NewLedger()
	put := func() {
		t.Helper()
		for range 3 {
			k, b := l.body(20 << 10)
			r, err := cl.Enqueue(within(t, 10*time.Second), "q", client.Message{Body: b})
			if l.answered(k, r, err); err != nil {
				t.Fatal(err)
			}
		}
	}
	// begun starts the node, looks whether everything is there, and stops it.
	begun := func(t *testing.T) {
		t.Helper()
		f.restart(t, []int{0})
		put()
		if q, err := cl.Queue(within(t, 10*time.Second), "q"); err != nil || q.Pending != int64(l.Confirmed()) {
			t.Fatalf("%d messages wait (%v), %d were confirmed", q.Pending, err, l.Confirmed())
		}
		if err := n.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	put()
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	kinds := []string{"wal", "bolt"} // it has the first, which is the default
	calls := [2]int{}                // of a conversion to each
	to := func(i int) string { return kinds[(i+1)%2] }
	for i := range 2 {
		before := f.disks[0].Count(forgetfs.Changes...)
		f.convert(t, bin, to(i), nil)
		calls[i] = f.disks[0].Count(forgetfs.Changes...) - before
		begun(t)
	}
	struck, cuts := 0, min((*sweepFlag+1)/2, 150)
	first := rng.IntN(calls[0] + calls[1])
	for i := range 2 * cuts {
		at := 1 + (first+i/2*calls[i%2]/cuts)%calls[i%2]
		hit := f.disks[0].Set(forgetfs.Trap{On: forgetfs.Changes, N: at, Do: forgetfs.CutBefore})
		p := f.convert(t, bin, to(i), hit)
		if where := f.disks[0].Struck(); where != "" {
			struck++
			t.Logf("to %s, cut before %s", to(i), where)
		}
		if _, err := f.disks[0].Cut(forgetfs.Draw(rng, forgetfs.All, forgetfs.Some, forgetfs.Torn, forgetfs.Kept), p); err != nil {
			t.Fatal(err)
		}
		if rng.IntN(2) == 0 {
			begun(t)
		}
		f.convert(t, bin, to(i), nil)
		begun(t)
	}
	f.restart(t, []int{0})
	takeAll(t, l, "q", n.ClientAddr)
	audit(t, f.Cluster, l, "q")
	report(t, "%d and %d calls in a conversion; of %d cuts %d were before one of them; the slowest start took %s", calls[0], calls[1], 2*cuts, struck, f.slowest)
	if struck == 0 {
		t.Error("no cut was before a call")
	}
}

// convert has the first node's log converted: until its end, which has to be a good one, or until the channel is closed, and then the
// process is still there.
func (f *forgetful) convert(t *testing.T, bin, to string, until <-chan struct{}) *proc.Process {
	t.Helper()
	n := f.Nodes[0]
	p := &proc.Process{
		Name: "conversion of " + n.Name, LogFile: filepath.Join(t.TempDir(), "convert.log"), Binary: bin, Env: n.Env,
		Args: []string{"log", "convert", "--data-dir", n.DataDir, "--to", to},
	}
	t.Cleanup(p.Kill)
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		select {
		case <-until:
			cancel()
		case <-ctx.Done():
		}
	}()
	code, err := p.Exited(ctx)
	select {
	case <-until:
		return p
	default:
	}
	if err != nil || code != 0 {
		t.Fatalf("convert to %s: %d, %v: %s", to, code, err, p.LastLog())
	}
	return p
}
