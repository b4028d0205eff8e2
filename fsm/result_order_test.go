package fsm

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

func (r *rig) results(queue string, after uint64, kind string, limit int) (got []uint64) {
	r.t.Helper()
	n, _ := r.s.QueueNumber([]byte(queue))
	r.s.Results(n, after, func(res *RecordedResult) bool {
		if kind == "" || kind == string(res.Kind) {
			got = append(got, res.Seq)
		}
		return limit == 0 || len(got) < limit
	})
	return got
}

func TestResultsInOrder(t *testing.T) {
	r := newRig(t)
	push := func(queue, task, kind string) {
		r.ok(&CreateQueue{Name: []byte(queue), Options: QueueOptions{ResultTTLMillis: 5000}})
		r.ok(&PushResult{Queue: []byte(queue), TaskID: []byte(task), Kind: []byte(kind), Result: Result{Output: []byte(task)}})
		must(t, "told", fmt.Sprint(r.fx.Results), fmt.Sprint([]uint32{r.number(queue)}))
	}
	push("q", "a", "mail")
	push("p", "b", "mail")
	push("q", "c", "print")
	push("q", "d", "mail")
	r.tick(3000)
	push("q", "e", "mail")
	for _, c := range []struct {
		name, queue, kind string
		after             uint64
		limit             int
		want              []uint64
	}{
		{"all", "q", "", 0, 0, []uint64{1, 3, 4, 5}},
		{"another queue", "p", "", 0, 0, []uint64{2}},
		{"a kind", "q", "mail", 0, 0, []uint64{1, 4, 5}},
		{"a kind that is not there", "q", "x", 0, 0, nil},
		{"behind one", "q", "", 1, 0, []uint64{3, 4, 5}},
		{"behind one of another queue", "q", "", 2, 0, []uint64{3, 4, 5}},
		{"behind one, of a kind", "q", "mail", 3, 0, []uint64{4, 5}},
		{"two", "q", "", 1, 2, []uint64{3, 4}},
		{"behind the last", "q", "", 5, 0, nil},
		{"behind any", "q", "", 1 << 63, 0, nil},
		{"no such queue", "none", "", 0, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			must(t, "results", fmt.Sprint(r.results(c.queue, c.after, c.kind, c.limit)), fmt.Sprint(c.want))
		})
	}
	must(t, "last of all", r.s.LastResult(), 5)
	must(t, "last of p", r.s.QueueResult(r.number("p")), 2)
	r.tick(2000) // the first four have ended
	must(t, "a place that is gone is the beginning", fmt.Sprint(r.results("q", 0, "", 0)), "[5]")
	must(t, "last of p", r.s.QueueResult(r.number("p")), 0)
	var res RecordedResult
	n, _ := r.s.QueueNumber([]byte("q"))
	r.s.Results(n, 0, func(x *RecordedResult) bool { res = *x; return true })
	must(t, "task", string(res.TaskID)+string(res.Output)+string(res.Kind), "eemail")
	r.everywhere()
	b := restored(t, snapshot(t, r.s))
	defer b.Close()
	var seqs []uint64
	b.Results(n, 0, func(x *RecordedResult) bool { seqs = append(seqs, x.Seq); return true })
	must(t, "restored", fmt.Sprint(seqs), "[5]")
	r.ok(&DeleteQueue{Name: []byte("q")})
	must(t, "deleted", len(r.results("q", 0, "", 0)), 0)
}

func (r *rig) ref(queue string) QueueRef { return r.s.Lookup([]byte(queue)) }

func (r *rig) number(queue string) uint32 { n, _ := r.s.QueueNumber([]byte(queue)); return n }

// A call looks at ListLimit results and says where it stopped.
func TestResultsPartial(t *testing.T) {
	r := newRig(t)
	r.quiet = true
	r.ok(&CreateQueue{Name: []byte("q")})
	r.ok(&SetQueue{Name: []byte("q"), Options: QueueOptions{ResultTTLMillis: 1000}})
	var ops []Op
	for i := range ListLimit + 10 {
		if i == ListLimit+5 {
			ops = append(ops, &SetQueue{Name: []byte("q")})
		}
		ops = append(ops, &PushResult{Queue: []byte("q"), TaskID: fmt.Appendf(nil, "t%d", i)})
	}
	r.apply(ops...)
	if err := r.s.Check(); err != nil {
		t.Fatal(err)
	}
	r.s.lim.reclaim = 0 // what has ended shows nowhere, and is looked at all the same
	r.tick(1000)
	n := r.number("q")
	got := 0
	partial := r.s.Results(n, 0, func(*RecordedResult) bool { got++; return true })
	must(t, "found", got, 0)
	must(t, "stopped at", partial, ListLimit)
	partial = r.s.Results(n, partial, func(*RecordedResult) bool { got++; return true })
	must(t, "found", got, 5)
	must(t, "stopped at", partial, 0)
}

// resultOrder against a plain list: random removals from the front, the middle and the end, and its memory.
func TestResultOrder(t *testing.T) {
	for _, seed := range seeds(t, 6) {
		rng := rand.New(rand.NewPCG(seed, 7))
		var o resultOrder
		var want []uint64
		next := uint64(0)
		for step := range 30_000 {
			switch grow := step/5000%2 == 0; {
			case grow && rng.IntN(3) > 0 || len(want) == 0:
				next += 1 + rng.Uint64N(3)
				o.add(next, int32(next))
				want = append(want, next)
			default:
				at := 0
				switch rng.IntN(3) {
				case 0:
					at = rng.IntN(len(want))
				case 1:
					at = len(want) - 1
				}
				o.remove(want[at])
				want = append(want[:at], want[at+1:]...)
			}
			if step%500 != 0 {
				continue
			}
			after, i := uint64(0), 0
			if len(want) > 0 {
				i = rng.IntN(len(want))
				after = want[i] - 1
			}
			o.after(after, func(seq uint64, slot int32) bool {
				if i >= len(want) || seq != want[i] || slot != int32(seq) {
					t.Fatalf("seed %d step %d: %d at %d", seed, step, seq, i)
				}
				i++
				return true
			})
			must(t, "how many", i, len(want))
			if chunks := len(o.row()); chunks > 2+4*len(want)/orderChunk {
				t.Fatalf("seed %d step %d: %d chunks for %d results", seed, step, chunks, len(want))
			}
		}
		for _, seq := range want {
			o.remove(seq)
		}
		must(t, "bytes when emptied", o.bytes(), 0)
	}
}
