//go:build linux

package forgetfs

import (
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestForgets: a power cut that drops all that may be dropped leaves exactly what was synced: data by a sync of the file, names by a
// sync of their directory, and neither by anything else.
func TestForgets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, script, late, all string }{ // late: what is seen, and left where everything has reached the disk
		{"nothing synced", "write a 0 x", "a=x", ""},
		{"data synced, not the name", "write a 0 x; sync a", "a=x", ""},
		{"name synced, not the data", "write a 0 x; syncdir .", "a=x", "a="},
		{"both synced", "write a 0 x; sync a; syncdir .", "a=x", "a=x"},
		{"data synced after the name", "write a 0 x; syncdir .; sync a", "a=x", "a=x"},
		{"written over", "write a 0 xyz; sync a; syncdir .; write a 1 Q", "a=xQz", "a=xyz"},
		{"written behind", "write a 0 xyz; sync a; syncdir .; write a 3 Q", "a=xyzQ", "a=xyz"},
		{"written far behind", "write a 0 xyz; sync a; syncdir .; write a 5000 Q; sync a; write a 9000 R", "a=xyz.*4997Q.*3999R", "a=xyz.*4997Q"},
		{"closed", "write a 0 x; syncdir .; close a", "a=x", "a="},
		{"made longer", "write a 0 x; sync a; syncdir .; truncate a 5", "a=x.*4", "a=x"},
		{"made shorter", "write a 0 xyz; sync a; syncdir .; truncate a 1", "a=x", "a=xyz"},
		{"made shorter and synced", "write a 0 xyz; sync a; syncdir .; truncate a 1; sync a", "a=x", "a=x"},
		{"shorter and longer", "write a 0 xyz; sync a; syncdir .; truncate a 1; truncate a 3; sync a", "a=x..", "a=x.."},
		{"allocated", "write a 0 x; sync a; syncdir .; allocate a 8000", "a=x.*7999", "a=x"},
		{"allocated and synced", "write a 0 x; syncdir .; allocate a 8000; sync a", "a=x.*7999", "a=x.*7999"},
		{"zeroed", "write a 0 xyz; sync a; syncdir .; zero a 1", "a=x..", "a=xyz"},
		{"zeroed and synced", "write a 0 xyz; sync a; syncdir .; zero a 1; sync a", "a=x..", "a=x.."},
		{"around the cache", "direct a 0 x; syncdir .", "a=x*4096", "a="},
		{"around the cache and synced", "direct a 4096 x; syncdir .; sync a", "a=.*4096x*4096", "a=.*4096x*4096"},
		{"a range written back", "write a 0 x; syncdir .; spread a", "a=x", "a="},
		{"through memory", "truncate a 8192; sync a; syncdir .; map a 4096 x; spread a", "a=.*4096x.*4095", "a=.*8192"},
		{"through memory, synced", "truncate a 8192; syncdir .; map a 4096 x; sync a", "a=.*4096x.*4095", "a=.*4096x.*4095"},
		{"removed", "write a 0 x; sync a; syncdir .; rm a", "", "a=x"},
		{"removed and synced", "write a 0 x; sync a; syncdir .; rm a; syncdir .", "", ""},
		{"renamed", "write a 0 x; sync a; syncdir .; rename a b", "b=x", "a=x"},
		{"renamed and synced", "write a 0 x; sync a; syncdir .; rename a b; syncdir .", "b=x", "b=x"},
		{"replaced", "write a 0 x; sync a; write b 0 y; sync b; syncdir .; rename b a", "a=y", "a=x b=y"},
		{"replaced and synced", "write a 0 x; sync a; write b 0 y; sync b; syncdir .; rename b a; syncdir .", "a=y", "a=y"},
		{"replaced by what is not synced", "write a 0 x; sync a; write b 0 y; rename b a; syncdir .", "a=y", "a="},
		{"a directory's own name", "mkdir d; write d/a 0 x; sync d/a; syncdir d", "d/ d/a=x", ""},
		{"a directory, not what is in it", "mkdir d; write d/a 0 x; sync d/a; syncdir .", "d/ d/a=x", "d/"},
		{"a directory and what is in it", "mkdir d; write d/a 0 x; sync d/a; syncdir d; syncdir .", "d/ d/a=x", "d/ d/a=x"},
		{"a directory renamed", "mkdir d; write d/a 0 x; sync d/a; syncdir d; syncdir .; rename d e", "e/ e/a=x", "d/ d/a=x"},
		{"a directory removed", "mkdir d; write d/a 0 x; sync d/a; syncdir d; syncdir .; rm d/a; rm d; syncdir .", "", ""},
		{"a directory emptied", "mkdir d; write d/a 0 x; sync d/a; syncdir d; syncdir .; rm d/a", "d/", "d/ d/a=x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for mode, want := range map[Mode]string{Late: c.late, All: c.all} {
				d, dir := served(t, Options{})
				w := start(t, dir)
				for order := range strings.SplitSeq(c.script, "; ") {
					if got := w.do(order); got != "ok" {
						t.Fatalf("%s: %s", order, got)
					}
				}
				if got := w.do("list"); got != there(c.late) {
					t.Errorf("seen before the cut: %q, want %q", got, there(c.late))
				}
				if _, err := d.Cut(Cut{Mode: mode}, w); err != nil {
					t.Fatal(err)
				}
				if got := left(d.root, ""); got != there(want) {
					t.Errorf("%s dropped: %q, want %q", mode, got, there(want))
				}
			}
		})
	}
}

// left is what a hand would list, without one.
func left(dir *inode, at string) string {
	var all []string
	for name, n := range dir.names {
		if n.isDir {
			all = append(all, at+name+"/")
			if below := left(n, at+name+"/"); below != there("") {
				all = append(all, strings.TrimPrefix(below, there("")+" "))
			}
		} else {
			all = append(all, at+name+"="+brief(content(&n.now)))
		}
	}
	sort.Strings(all)
	return strings.Join(append([]string{there("")}, all...), " ")
}

func there(s string) string { return strings.TrimSuffix("there: "+s, " ") }

// TestTraps: the n-th call is the one that is struck, and what it does is what is said.
func TestTraps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, script string
		trap         Trap
		answers      string // of the script, after the trap was set
		struck       string
		then         string // after a cut that drops all
	}{
		{"cut before a sync", "write a 0 x; sync a", Trap{On: Syncs, N: 1, Do: CutBefore}, "ok held", "sync 1, sync /a", "a="},
		{"cut after a sync", "write a 0 x; sync a", Trap{On: Syncs, N: 1, Do: CutAfter}, "ok held", "sync 1, sync /a", "a=x"},
		{"cut after the second sync", "write a 0 x; sync a; write a 0 y; sync a", Trap{On: Syncs, N: 2, Do: CutAfter}, "ok ok ok held", "sync 2, sync /a", "a=y"},
		{"cut before a write", "write a 0 x; sync a; write a 0 y", Trap{On: Writes, N: 2, Do: CutBefore}, "ok ok held", "write 2, write /a at 0+1", "a=x"},
		{"cut after a rename", "rename a b", Trap{On: []Op{Rename}, N: 1, Do: CutAfter}, "held", "rename 1, rename /a to b", "a="},
		{"failing syncs", "write a 0 x; sync a; sync a; write a 1 y; sync a", Trap{On: Syncs, N: 1, Do: Fail, Err: syscall.EIO}, "ok EIO EIO ok EIO", "sync 1, sync /a", "a="},
		{"failing writes", "write a 0 x; write a 1 y; sync a; write a 1 y", Trap{On: Writes, N: 2, Do: Fail, Err: syscall.ENOSPC}, "ok ENOSPC ok ENOSPC", "write 2, write /a at 1+1", "a=x"},
		{"no space for a file", "write b 0 x", Trap{On: Writes, N: 1, Do: Fail, Err: syscall.ENOSPC}, "ENOSPC", "create 1, create /b", "a="},
		{"syncs that do nothing", "write a 0 x; sync a; write b 0 y; sync b; syncdir .", Trap{On: Syncs, N: 1, Do: Lie}, "ok ok ok ok ok", "sync 1, sync /a", "a="},
		{"a stalled sync", "write a 0 x; sync a", Trap{On: Syncs, N: 1, Do: Stall, For: 200 * time.Millisecond}, "ok ok", "sync 1, sync /a", "a=x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, dir := served(t, Options{})
			w := start(t, dir)
			for _, order := range []string{"write a 0 x", "truncate a 0", "sync a", "syncdir ."} {
				if got := w.do(order); got != "ok" {
					t.Fatalf("%s: %s", order, got)
				}
			}
			struck := d.Set(c.trap)
			began := time.Now()
			var answers []string
			for order := range strings.SplitSeq(c.script, "; ") {
				got := make(chan string, 1)
				w.begin(order)
				go func() { got <- w.answer() }()
				held := struck
				if c.trap.Do != CutBefore && c.trap.Do != CutAfter {
					held = nil
				}
				select {
				case a := <-got:
					answers = append(answers, a)
				case <-held:
					answers = append(answers, "held")
				}
			}
			if got := strings.Join(answers, " "); got != c.answers {
				t.Errorf("answers %q, want %q", got, c.answers)
			}
			if got := d.Struck(); got != c.struck {
				t.Errorf("struck %q, want %q", got, c.struck)
			}
			if took := time.Since(began); took < c.trap.For {
				t.Errorf("it took %s, want %s at least", took, c.trap.For)
			}
			if _, err := d.Cut(Cut{Mode: All}, w); err != nil {
				t.Fatal(err)
			}
			if got := start(t, dir).do("list"); got != there(c.then) {
				t.Errorf("after the cut: %q, want %q", got, there(c.then))
			}
		})
	}
}

// TestAfterAFailedSync: what a sync should have made durable that has failed is not made durable by the next one, though it is seen, until
// it is written, or named, once more.
func TestAfterAFailedSync(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, script, failing, then, seen, left string }{
		{"data synced again", "write a 0 xyz", "sync a", "sync a", "a=xyz", "a="},
		{"data written again", "write a 0 xyz", "sync a", "write a 0 xyz; sync a", "a=xyz", "a=xyz"},
		{"another place written", "write a 0 xyz", "sync a", "write a 5000 Q; sync a", "a=xyz.*4997Q", "a=.*5000Q"},
		{"one of two written again", "write a 0 xyz; write a 5000 Q", "sync a", "write a 5000 Q; sync a", "a=xyz.*4997Q", "a=.*5000Q"},
		{"written again and not synced", "write a 0 xyz", "sync a", "write a 0 xyz", "a=xyz", "a="},
		{"a length synced again", "truncate a 3", "sync a", "sync a", "a=...", "a="},
		{"zeros written again", "write a 0 xyz; sync a; zero a 1", "sync a", "zero a 1; sync a", "a=x..", "a=x.."},
		{"a name synced again", "write b 0 x; sync b", "syncdir .", "syncdir .", "a= b=x", "a="},
		{"a name given again", "write b 0 x; sync b", "syncdir .", "rename b c; rename c b; syncdir .", "a= b=x", "a= b=x"},
		{"a name replaced", "write b 0 x; sync b; rename b a", "syncdir .", "close b; write b 0 y; sync b; rename b a; syncdir .", "a=y", "a=y"},
		{"a removal synced again", "rm a", "syncdir .", "syncdir .", "", "a="},
		{"another process", "write a 0 xyz", "sync a", "restart; sync a; restart; write a 0 xyz; sync a", "a=xyz", "a=xyz"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, dir := served(t, Options{})
			w := start(t, dir)
			do := func(script string) {
				t.Helper()
				for order := range strings.SplitSeq(script, "; ") {
					if order == "restart" {
						w.Kill()
						w = start(t, dir)
					} else if got := w.do(order); got != "ok" {
						t.Fatalf("%s: %s", order, got)
					}
				}
			}
			do("truncate a 0; syncdir .; " + c.script)
			d.Set(Trap{On: Syncs, N: 1, Do: Fail, Err: syscall.EIO})
			if got := w.do(c.failing); got != "EIO" {
				t.Fatalf("%s: %s", c.failing, got)
			}
			d.Clear()
			do(c.then)
			if got := w.do("list"); got != there(c.seen) {
				t.Errorf("seen: %q, want %q", got, there(c.seen))
			}
			if _, err := d.Cut(Cut{Mode: All}, w); err != nil {
				t.Fatal(err)
			}
			if got := left(d.root, ""); got != there(c.left) {
				t.Errorf("after the cut: %q, want %q", got, there(c.left))
			}
		})
	}
}
