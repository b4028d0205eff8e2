package fsm

import "testing"

// TestSweepLooksOnce: the sweep behind a deletion or several purges of one entry looks at each hook once, so that what fits into
// an entry is over with it.
func TestSweepLooksOnce(t *testing.T) {
	queue := func(name string) []byte { return []byte(name) }
	for _, c := range []struct {
		name string
		ops  []Op
	}{
		{"a purge", []Op{&PurgeQueue{Name: queue("gone")}}},
		{"two purges", []Op{&PurgeQueue{Name: queue("gone")}, &PurgeQueue{Name: queue("gone2")}}},
		{"a deletion", []Op{&DeleteQueue{Name: queue("gone")}}},
		{"two deletions", []Op{&DeleteQueue{Name: queue("gone")}, &DeleteQueue{Name: queue("gone2")}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			r.quiet = true
			b := r.ok(&BatchCreate{Queue: queue("done"), AutoCreate: true, Callback: text("")}).ID
			m := text("x")
			m.Batch = b
			put := func(name string, n int) {
				op := &Enqueue{Queue: queue(name), AutoCreate: true}
				for range n {
					op.Messages = append(op.Messages, m)
				}
				r.apply(op)
			}
			put("stay", MaxReclaim/2)
			put("gone", MaxReclaim/4)
			put("gone2", MaxReclaim/4)
			r.apply(c.ops...)
			must(t, "more to do", r.fx.More, false)
			var in BatchInfo
			must(t, "known", r.s.Batch(b, &in), true)
			must(t, "open", in.Open, MaxReclaim-in.Cancelled)
			if in.Cancelled < MaxReclaim/4 {
				t.Errorf("%d members were counted as cancelled", in.Cancelled)
			}
			r.everywhere()
		})
	}
}
