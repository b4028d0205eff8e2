package fsm

import "testing"

// Everything that time ends, and everything that a purge leaves, calls for an entry until it is given back, and for none after.
func TestUntidy(t *testing.T) {
	for _, k := range retainedKinds() {
		if k.name == "message of some age" { // which a due move ends
			continue
		}
		t.Run(k.name, func(t *testing.T) {
			r := newRig(t)
			ends := k.keeps
			if k.option == nil {
				r.queue(QueueOptions{})
			} else {
				ends = keepFor
				r.queue(k.option(keepFor))
			}
			k.make(r)
			if k.last {
				ends++
			}
			some, _ := r.s.Untidy(t0 + ends - 1)
			for at := r.now; some && at < t0+ends; at += 60_000 { // what else was made ends before
				r.now = at
				r.apply()
				some, _ = r.s.Untidy(t0 + ends - 1)
			}
			r.now = t0 + ends - 1
			r.tick(0)
			some, _ = r.s.Untidy(r.now)
			must(t, "a millisecond before", some, false)
			some, much := r.s.Untidy(r.now + 1)
			must(t, "at the end", some, true)
			must(t, "no hurry", much, false)
			r.tick(1)
			some, _ = r.s.Untidy(r.now)
			must(t, "when it is reclaimed", some, false)
		})
	}
	t.Run("more than an entry reclaims", func(t *testing.T) {
		r := newRig(t)
		r.s.lim.reclaim = 2
		r.queue(QueueOptions{DedupWindowMillis: 1000})
		for i := range 5 {
			r.ok(one(deduped(i)))
		}
		for i, want := range []bool{true, true, false} {
			r.now = t0 + 1001
			r.tick(0)
			some, much := r.s.Untidy(r.now)
			if some != want || some && !much {
				t.Errorf("after entry %d: some %t, much %t", i, some, much)
			}
		}
	})
	t.Run("a purge", func(t *testing.T) {
		r := newRig(t)
		r.s.lim.garbage = 2
		for range 5 {
			r.put(text("x"))
		}
		r.ok(&PurgeQueue{Name: q0})
		n := 0
		for some, much := r.s.Untidy(r.now); some; some, much = r.s.Untidy(r.now) {
			must(t, "in a hurry", much, true)
			r.tick(0)
			if n++; n > 5 {
				t.Fatal("does not end")
			}
		}
		must(t, "garbage", r.mem().Garbage, 0)
	})
}
