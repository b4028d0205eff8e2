package fsm

import (
	"fmt"
	"testing"
)

// Whatever came before it in its entry or earlier ones, an operation that frees leaves no live lease of a token that was held.
func TestFrees(t *testing.T) {
	long := make([]byte, MaxContentType+1)
	for i := range long {
		long[i] = 'x'
	}
	type freeing interface {
		Op
		Frees() bool
	}
	ops := []struct {
		name  string
		op    func(Token) Op
		frees bool
	}{
		{"ack", func(k Token) Op { return &Ack{Token: k} }, true},
		{"ack with a result", func(k Token) Op { return &Ack{Token: k, HasResult: true, Result: Result{Output: []byte("r")}} }, true},
		{"ack with a bad result", func(k Token) Op { return &Ack{Token: k, HasResult: true, Result: Result{ContentType: long}} }, false},
		{"ack with too large a result", func(k Token) Op {
			return &Ack{Token: k, HasResult: true, Result: Result{Output: make([]byte, MaxBodyBytes+1)}}
		}, false},
		{"ack with a chain", func(k Token) Op { return &Ack{Token: k, Then: []ThenMessage{{Queue: []byte("none")}}} }, false},
		{"nack", func(k Token) Op { return &Nack{Token: k, DelayMillis: -1} }, true},
		{"nack for long", func(k Token) Op { return &Nack{Token: k, DelayMillis: MaxDelayMillis} }, true},
		{"nack for too long", func(k Token) Op { return &Nack{Token: k, DelayMillis: MaxDelayMillis + 1} }, false},
		{"nack for less than nothing", func(k Token) Op { return &Nack{Token: k, DelayMillis: -2} }, false},
		{"permanent nack", func(k Token) Op { return &Nack{Token: k, Permanent: true} }, true},
		{"release", func(k Token) Op { return &Release{Token: k} }, true},
	}
	before := []struct {
		name string
		op   func(Token) []Op
	}{
		{"nothing", func(Token) []Op { return nil }},
		{"extended", func(k Token) []Op { return []Op{&Extend{Token: k, LeaseMillis: 60_000}} }},
		{"cancelled", func(k Token) []Op { return []Op{&Cancel{Queue: []byte("q"), TaskID: AppendID(nil, k.Message)}} }},
		{"result pushed", func(k Token) []Op { return []Op{&PushResult{Queue: []byte("q"), TaskID: AppendID(nil, k.Message)}} }},
		{"acked", func(k Token) []Op { return []Op{&Ack{Token: k}} }},
		{"released and leased again", func(k Token) []Op {
			return []Op{&Release{Token: k}, &Lease{Queue: []byte("q"), Consumer: someone, Max: 1}}
		}},
		{"purged", func(Token) []Op { return []Op{&PurgeQueue{Name: []byte("q")}} }},
		{"its queue deleted", func(Token) []Op { return []Op{&DeleteQueue{Name: []byte("q")}} }},
	}
	for _, test := range ops {
		for _, b := range before {
			for _, late := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/late=%v", test.name, b.name, late), func(t *testing.T) {
					r := newRig(t)
					r.put(text("x"))
					k := r.lease1()
					if who, ok := r.s.HeldBy(k); !ok || who != someone {
						t.Fatalf("held by %v, %v, want %v", who, ok, someone)
					}
					if late { // it runs out in the entry
						r.now += 1001
					}
					op := test.op(k)
					r.apply(append(b.op(k), op)...)
					frees := true
					if f, ok := op.(freeing); ok {
						frees = f.Frees()
					}
					if frees != test.frees {
						t.Fatalf("frees %v, want %v", frees, test.frees)
					}
					if _, held := r.s.HeldBy(k); held && test.frees {
						t.Fatalf("its lease is live after it")
					} else if !held && !test.frees && b.name == "nothing" && !late {
						t.Fatalf("its lease is over, the case is none")
					}
				})
			}
		}
	}
}
