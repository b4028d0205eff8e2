package client

import (
	"math/rand/v2"
	"testing"
)

// The queue of numbered calls stays ascending whatever ends in it meanwhile, and gives out each living call once.
func TestFifoKeepsNumbersAscending(t *testing.T) {
	rng := rand.New(rand.NewPCG(seed(), 3))
	for range 200 {
		var q fifo
		living := map[*call]bool{}
		numbers := rng.Perm(40)
		var last uint64
		for _, n := range numbers {
			cl := &call{number: uint64(n + 1)}
			if cl.number < last { // lower ones than those given out come only with the next connection
				continue
			}
			q.insertByNumber(cl)
			living[cl] = true
			switch rng.IntN(4) {
			case 0: // some call ends where it is
				for end := range living {
					end.state, end.number = callDone, 0
					delete(living, end)
					break
				}
			case 1:
				if cl := q.front(); cl != nil {
					if !living[cl] || cl.number < last {
						t.Fatalf("got %d after %d, living %v", cl.number, last, living[cl])
					}
					last = cl.number
					delete(living, cl)
					q.pop()
				}
			case 2:
				q.compact()
			}
		}
		for cl := q.front(); cl != nil; cl = q.front() {
			if !living[cl] || cl.number < last {
				t.Fatalf("got %d after %d, living %v", cl.number, last, living[cl])
			}
			last = cl.number
			delete(living, cl)
			q.pop()
		}
		if len(living) != 0 {
			t.Fatalf("%d calls were lost", len(living))
		}
	}
}

// Calls are given back to a queue in the order in which they were sent, before those that never were.
func TestFifoOrderOfReturns(t *testing.T) {
	var q fifo
	q.pushBack(&call{number: 101})
	q.pushBack(&call{number: 102})
	for _, tag := range []uint64{5, 3, 9, 4} {
		q.insertByTag(&call{number: tag, tag: tag})
	}
	q.prepend([]*call{{number: 1, tag: 1}, {number: 2, tag: 2}})
	var got []uint64
	for cl := q.front(); cl != nil; cl = q.front() {
		got = append(got, cl.number)
		q.pop()
	}
	want := []uint64{1, 2, 3, 4, 5, 9, 101, 102}
	if len(got) != len(want) {
		t.Fatalf("order %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("order %v, want %v", got, want)
		}
	}
}
