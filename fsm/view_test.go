package fsm

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// TestViewWhileApplying takes views and writes them from other goroutines while entries go on: each must come out as the
// state was at its index. Run with -race it also shows that nothing is shared that is written to.
func TestViewWhileApplying(t *testing.T) {
	src := make([]byte, 1<<14)
	rng := rand.New(rand.NewPCG(11, 3))
	for i := range src {
		src[i] = byte(rng.Uint32())
	}
	p := newPlayer(&dice{src})
	defer p.s.Close()
	var wg sync.WaitGroup
	type want struct {
		index  uint64
		digest [32]byte
		got    [32]byte
		size   int64
	}
	var wants []*want
	for i := range 250 {
		if err := p.play(); err != nil {
			t.Fatal(err)
		}
		if i%5 != 0 {
			continue
		}
		w := &want{index: p.index, digest: digest(p.s)}
		wants = append(wants, w)
		v := p.s.View()
		wg.Go(func() {
			defer v.Release()
			var b bytes.Buffer
			w.size, _ = v.WriteTo(&b)
			w.got = v.Digest()
			must(t, "index", v.Index(), w.index)
		})
	}
	wg.Wait()
	for _, w := range wants {
		must(t, fmt.Sprint("digest at ", w.index), w.got, w.digest)
		if w.size == 0 {
			t.Fatal("nothing written")
		}
	}
}

// TestViewOutlivesTheState closes the state under an open view.
func TestViewOutlivesTheState(t *testing.T) {
	r := newRig(t)
	r.put(text("x"))
	want := digest(r.s)
	v := r.s.View()
	r.s.Close()
	must(t, "digest", v.Digest(), want)
	v.Release()
	v.Release()
}

func TestViewIsQuick(t *testing.T) {
	if testing.Short() {
		return
	}
	r, _ := filled(t, 200_000)
	best := time.Hour
	for range 5 {
		at := time.Now()
		v := r.s.View()
		best = min(best, time.Since(at))
		v.Release()
	}
	if best > time.Millisecond {
		t.Fatalf("a view of 200,000 messages takes %v, want less than 1 ms", best)
	}
}

// TestSameLogSameState applies a log to states that differ in everything local: with effects and without, with views
// held open, with another pace of garbage and compaction.
func TestSameLogSameState(t *testing.T) {
	src := make([]byte, 1<<13)
	rng := rand.New(rand.NewPCG(5, 4))
	for i := range src {
		src[i] = byte(rng.Uint32())
	}
	p := newPlayer(&dice{src})
	defer p.s.Close()
	a, b := New(3), New(3)
	tight(a)
	tight(b)
	defer a.Close()
	defer b.Close()
	b.lim.garbage, b.lim.compact = 1000, 0
	done := 0
	for range 200 {
		if err := p.play(); err != nil {
			t.Fatal(err)
		}
		for ; done < len(p.log); done++ {
			e := p.log[done]
			v := a.View()
			if err := a.Apply(binary.BigEndian.Uint64(e), e[8:], nil); err != nil {
				t.Fatal(err)
			}
			v.Release()
			if err := b.Apply(binary.BigEndian.Uint64(e), e[8:], nil); err != nil {
				t.Fatal(err)
			}
		}
		want := digest(p.s)
		must(t, "with views", digest(a), want)
		must(t, "with another pace", digest(b), want)
	}
}

// TestCompaction leaves one message in twenty behind in many chunks: the chunks come back, the messages stay, and nothing
// else shows.
func TestCompaction(t *testing.T) {
	r := newRig(t)
	r.quiet = true
	var keep []ID
	body := func(i int) []byte { return bytes.Repeat([]byte{byte(i), byte(i >> 8), 7}, 1000) }
	const n = 8000
	for i := 0; i < n; i += 100 {
		op := &Enqueue{Queue: []byte("q"), AutoCreate: true}
		for j := range 100 {
			m := Message{Body: body(i + j), Priority: 4}
			if j%20 == 0 {
				m.Priority = 0
				m.Kind = []byte("kept")
			}
			op.Messages = append(op.Messages, m)
		}
		for j, o := range r.apply(op) {
			if j%20 == 0 {
				keep = append(keep, o.ID)
			}
		}
	}
	full := r.s.Memory().ArenaHeld
	// Results, histories and workers lie in between, and move too.
	var done, failed []ID
	for left := n - len(keep); left > 0; {
		r.ok(&Lease{Queue: []byte("q"), Consumer: someone, Worker: fmt.Append(nil, "worker ", left), Max: 100})
		var ops []Op
		for i, l := range r.fx.Leases {
			id := l.Token.Message
			switch i {
			case 0:
				done = append(done, id)
				ops = append(ops, &Ack{Token: l.Token, HasResult: true, Result: Result{Output: []byte(id.String())}})
			case 1:
				failed = append(failed, id)
				ops = append(ops, &Nack{Token: l.Token, Error: []byte(id.String()), DelayMillis: 1e6})
			default:
				ops = append(ops, &Ack{Token: l.Token})
			}
			left--
		}
		r.apply(ops...)
	}
	for range 400 {
		r.tick(0)
	}
	if err := r.s.Check(); err != nil {
		t.Fatal(err)
	}
	m := r.s.Memory()
	const spare = 16 << 20 // empty chunks kept in hand
	if m.ArenaHeld > spare+3*m.ArenaLive || full < spare+10*m.ArenaLive/2 {
		t.Fatalf("arena holds %d of %d bytes for %d that are live", m.ArenaHeld, full, m.ArenaLive)
	}
	for i, id := range keep {
		in := r.info(id)
		if !bytes.Equal(in.Body, body(i*20)) {
			t.Fatalf("message %d has another body", i*20)
		}
	}
	for _, id := range done {
		r.wantResult(id.String(), id.String())
	}
	for _, id := range failed {
		in := r.info(id)
		if string(in.Error) != id.String() || !bytes.HasPrefix(in.History[0].Worker, []byte("worker ")) {
			t.Fatalf("message %s failed with %q of %q", id, in.Error, in.History[0].Worker)
		}
	}
	b := restored(t, snapshot(t, r.s))
	b.Close()
}
