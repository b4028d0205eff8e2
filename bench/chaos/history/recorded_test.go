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
	timesFlag = flag.Int("times", 1, "how often TestPlantsInRecording plants each kind of lie")
	fromFlag  = flag.String("from", "", "folder with the history that is planted in, events.jsonl and effects.jsonl, both may be .gz; without it those in testdata")
)

// recordings are the histories that real nodes made: the queues that each is about.
var recordings = map[string][]string{
	"testdata": slices.Concat(RequiredOnce, RequiredRated, RequiredLetters, RequiredBatches),
	"testdata/changes": slices.Concat(RequiredLetters, RequiredMoves, RequiredEmptied, RequiredKeyRates, RequiredBuried, RequiredEdits, RequiredKeys,
		RequiredSchedules),
}

// eachRecording plays a test with each recording, or the one that -from names.
func eachRecording(t *testing.T, play func(t *testing.T, h *History, also []string)) {
	t.Helper()
	all := recordings
	if *fromFlag != "" {
		all = map[string][]string{*fromFlag: nil}
	}
	for dir, also := range all {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			t.Parallel()
			h := &History{}
			load(t, dir, "events.jsonl", func(r io.Reader) (err error) { h.Events, err = ReadEvents(r); return err })
			load(t, dir, "effects.jsonl", func(r io.Reader) (err error) { h.Effects, err = ReadEffects(r); return err })
			play(t, h, also)
		})
	}
}

// eachHistory plays a test with the story too.
func eachHistory(t *testing.T, play func(t *testing.T, h *History, told bool)) {
	t.Helper()
	t.Run("told", func(t *testing.T) {
		t.Parallel()
		play(t, wholeStory(t), true)
	})
	eachRecording(t, func(t *testing.T, h *History, _ []string) { play(t, h, false) })
}

func load(t *testing.T, dir, name string, read func(io.Reader) error) {
	t.Helper()
	file := filepath.Join(dir, name)
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
	eachRecording(t, func(t *testing.T, h *History, also []string) {
		if r := Check(h, Config{Also: also}); r.Err() != nil {
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
	})
}
