package fsmtest

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/quorate/quorate/fsm"
)

var (
	prefixesFlag = flag.Int("prefixes", 3, "how many sequences TestPrefixes restores at every index")
	longFlag     = flag.Int("long", 1, "how many long sequences TestPrefixes restores at 20 drawn indexes")
)

// Wherever in a log a snapshot is taken, written and read back, the rest of the log comes to the same state: at every index of short
// sequences, at 20 drawn ones of long sequences. The restored state writes the same bytes.
func TestPrefixes(t *testing.T) {
	play := func(t *testing.T, seed uint64, ops int, at func(n int) []int) {
		t.Helper()
		log := drawLog(seed, ops, nil)
		cuts := at(len(log))
		p := newPlayer(t, seed)
		var data [][]byte
		snapshots := map[int][]byte{}
		for i, s := range log {
			data = append(data, encodeEntry(nil, s.Entry))
			p.apply(s.Index, s.Entry)
			if slices.Contains(cuts, i) {
				snapshots[i] = snapshotOf(t, p.st)
			}
		}
		want := digest(p.st)
		for _, cut := range cuts {
			st, err := fsm.Restore(groupOf(seed), bytes.NewReader(snapshots[cut]))
			if err != nil {
				t.Fatalf("restore at entry %d: %v", log[cut].Index, err)
			}
			if again := snapshotOf(t, st); !bytes.Equal(again, snapshots[cut]) {
				t.Errorf("what was restored at entry %d writes other bytes, from %d on", log[cut].Index, firstDifference(again, snapshots[cut]))
			}
			for i := cut + 1; i < len(log); i++ {
				if err := st.Apply(log[i].Index, data[i], nil); err != nil {
					t.Fatalf("entry %d behind the snapshot at %d: %v", log[i].Index, log[cut].Index, err)
				}
			}
			if got := digest(st); got != want {
				t.Errorf("digest with a snapshot at entry %d: want %x, got %x", log[cut].Index, want, got)
			}
			if err := st.Check(); err != nil {
				t.Errorf("with a snapshot at entry %d: %v", log[cut].Index, err)
			}
			st.Close()
		}
	}
	every := func(n int) []int {
		all := make([]int, n)
		for i := range all {
			all[i] = i
		}
		return all
	}
	for n := range uint64(*prefixesFlag) {
		if !t.Run(fmt.Sprint("every/", *seedFlag+n), func(t *testing.T) { play(t, *seedFlag+n, 200, every) }) {
			return
		}
	}
	for n := range uint64(*longFlag) {
		t.Run(fmt.Sprint("drawn/", *seedFlag+n), func(t *testing.T) {
			play(t, *seedFlag+n, 4000, func(n int) []int { return rand.New(rand.NewPCG(*seedFlag, uint64(n))).Perm(n)[:20] })
		})
	}
}

func snapshotOf(t *testing.T, st *fsm.State) []byte {
	t.Helper()
	var b bytes.Buffer
	v := st.View()
	defer v.Release()
	if _, err := v.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// States that apply the same logs at the same time, on one thread or two, while snapshots of each are written, come to the same digests.
func TestConcurrentStates(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	var logs [][]Step
	for n := range uint64(4) {
		logs = append(logs, drawLog(*seedFlag+n, 400, nil))
	}
	var want [4][32]byte
	for round, procs := range []int{1, 2, 2} {
		runtime.GOMAXPROCS(procs)
		var got [4][2][32]byte
		var wg sync.WaitGroup
		for i, log := range logs {
			for twin := range 2 {
				wg.Go(func() {
					st := fsm.New(groupOf(*seedFlag + uint64(i)))
					var views sync.WaitGroup
					defer func() { views.Wait(); st.Close() }()
					for n, s := range log {
						if err := st.Apply(s.Index, encodeEntry(nil, s.Entry), nil); err != nil {
							t.Errorf("entry %d: %v", s.Index, err)
							return
						}
						if n%10 == 0 {
							view := st.View()
							views.Go(func() { _ = digestOf(view) })
						}
					}
					got[i][twin] = digest(st)
				})
			}
		}
		wg.Wait()
		for i := range logs {
			if round == 0 {
				want[i] = got[i][0]
			}
			for twin := range 2 {
				if got[i][twin] != want[i] {
					t.Errorf("seed %d on %d threads: digest %x, want %x", *seedFlag+uint64(i), procs, got[i][twin], want[i])
				}
			}
		}
	}
}

func digestOf(v *fsm.View) [32]byte {
	defer v.Release()
	return v.Digest()
}
