package history

import (
	"compress/gzip"
	"flag"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

var (
	seedFlag  = flag.Uint64("seed", 0, "seed of where TestPlantsInRecording puts its lies; 0 draws one")
	timesFlag = flag.Int("times", 2, "how often TestPlantsInRecording plants each kind of lie")
	fromFlag  = flag.String("from", "testdata", "folder with the history that is planted in: events.jsonl and effects.jsonl, both may be .gz")
)

// recorded loads a history that real nodes made.
func recorded(t *testing.T) *History {
	t.Helper()
	h := &History{}
	load(t, "events.jsonl", func(r io.Reader) (err error) { h.Events, err = ReadEvents(r); return err })
	load(t, "effects.jsonl", func(r io.Reader) (err error) { h.Effects, err = ReadEffects(r); return err })
	return h
}

func load(t *testing.T, name string, read func(io.Reader) error) {
	t.Helper()
	file := filepath.Join(*fromFlag, name)
	f, err := os.Open(file)
	if os.IsNotExist(err) {
		f, err = os.Open(file + ".gz")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := io.Reader(f)
	if filepath.Ext(f.Name()) == ".gz" {
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		r = z
	}
	if err := read(r); err != nil {
		t.Fatalf("%s: %v", f.Name(), err)
	}
}

// A history of three real nodes passes; with any lie in it, anywhere, it does not.
func TestPlantsInRecording(t *testing.T) {
	t.Parallel()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("seed %d (repeat with -seed)", seed)
	h := recorded(t)
	if r := Check(h, Config{Also: slices.Concat(RequiredOnce, RequiredRated, RequiredLetters, RequiredBatches)}); r.Err() != nil {
		t.Fatalf("without a lie: %v\n%s", r.Err(), report(t, r))
	}
	for i, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			for n := range *timesFlag {
				s := seed + uint64(1000*i+n)
				r, ok := p.try(h, s)
				if !ok {
					continue
				}
				if err := p.caught(r); err != nil {
					t.Errorf("seed %d: %v\n%s", s, err, report(t, r))
				}
			}
		})
	}
}
