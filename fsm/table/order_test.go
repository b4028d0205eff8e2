package table

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// orderOf makes an Order of slots by their keys.
func orderOf(keys []int64) *Order {
	return &Order{Less: func(a, b int32) bool {
		if keys[a] != keys[b] {
			return keys[a] < keys[b]
		}
		return a < b
	}}
}

func slots(o *Order, from Place) (vs []int32) {
	for {
		v, ok := o.Next(&from)
		if !ok {
			return vs
		}
		vs = append(vs, v)
	}
}

// TestOrderAgainstSlice inserts and removes at random, in growing, mixed and falling order, next to a sorted slice.
func TestOrderAgainstSlice(t *testing.T) {
	const n = 6000
	for _, c := range []struct {
		name string
		key  func(rng *rand.Rand, i int) int64
	}{
		{"rising", func(_ *rand.Rand, i int) int64 { return int64(i) }},
		{"falling", func(_ *rand.Rand, i int) int64 { return int64(-i) }},
		{"random", func(rng *rand.Rand, _ int) int64 { return rng.Int64N(50) }},
		{"nearly rising", func(rng *rand.Rand, i int) int64 { return int64(i) - rng.Int64N(20) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(7, 1))
			keys := make([]int64, n)
			for i := range keys {
				keys[i] = c.key(rng, i)
			}
			o := orderOf(keys)
			var want []int32
			pos := func(v int32) (int, bool) {
				return slices.BinarySearchFunc(want, v, func(a, b int32) int {
					switch {
					case a == b:
						return 0
					case o.Less(a, b):
						return -1
					}
					return 1
				})
			}
			next := int32(0)
			for step := 0; next < n || len(want) > 0; step++ {
				grow := next < n && (len(want) == 0 || rng.IntN(5) < 3)
				if grow {
					o.Insert(next)
					at, _ := pos(next)
					want = slices.Insert(want, at, next)
					next++
				} else {
					v := want[rng.IntN(len(want))]
					if !o.Remove(v) {
						t.Fatalf("step %d: slot %d is not there", step, v)
					}
					if o.Remove(v) {
						t.Fatalf("step %d: slot %d was there twice", step, v)
					}
					at, _ := pos(v)
					want = slices.Delete(want, at, at+1)
				}
				if o.Len() != len(want) {
					t.Fatalf("step %d: %d slots, want %d", step, o.Len(), len(want))
				}
				if step%97 != 0 {
					continue
				}
				if got := slots(o, Place{}); !slices.Equal(got, want) {
					t.Fatalf("step %d: another order than sorted", step)
				}
				if len(want) > 0 {
					v := want[rng.IntN(len(want))]
					at, _ := pos(v)
					if got := slots(o, o.Seek(func(x int32) bool { return o.Less(x, v) })); !slices.Equal(got, want[at:]) {
						t.Fatalf("step %d: seek of %d finds %d slots behind, want %d", step, v, len(got), len(want)-at)
					}
				}
				used := 0
				for i, p := range o.pages {
					if len(p) == 0 {
						t.Fatalf("step %d: page %d is empty", step, i)
					}
					used += len(p)
				}
				if used > 4*orderPage && len(o.pages) > 6*used/orderPage {
					t.Fatalf("step %d: %d slots in %d pages", step, used, len(o.pages))
				}
			}
			if o.Bytes() != 0 && o.pages != nil {
				t.Fatalf("empty it holds %d bytes", o.Bytes())
			}
		})
	}
}

func BenchmarkOrderSeek(b *testing.B) {
	const n = 1_000_000
	keys := make([]int64, n)
	o := orderOf(keys)
	for i := range keys {
		keys[i] = int64(i)
		o.Insert(int32(i))
	}
	for i := range b.N {
		want := int32(i * 7919 % n)
		p := o.Seek(func(v int32) bool { return v < want })
		if v, _ := o.Next(&p); v != want {
			b.Fatal("not found")
		}
	}
}

func BenchmarkOrderChurn(b *testing.B) {
	const n = 1_000_000
	keys := make([]int64, n+b.N)
	o := orderOf(keys)
	for i := range n {
		keys[i] = int64(i)
		o.Insert(int32(i))
	}
	b.ResetTimer()
	for i := range b.N { // as dead letters come and are requeued: one in at the end, the oldest out
		keys[n+i] = int64(n + i)
		o.Insert(int32(n + i))
		if !o.Remove(int32(i)) {
			b.Fatal("not there")
		}
	}
}
