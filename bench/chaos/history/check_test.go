package history

import (
	"strings"
	"testing"
)

func report(t *testing.T, r *Report) string {
	t.Helper()
	var b strings.Builder
	if _, err := r.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A true history passes, and is not vacuous.
func TestCleanStory(t *testing.T) {
	t.Parallel()
	r := Check(wholeStory(t), Config{})
	if err := r.Err(); err != nil {
		t.Fatalf("%v\n%s", err, report(t, r))
	}
}

// Each kind of lie, told by hand, is caught.
func TestPlantsInStory(t *testing.T) {
	t.Parallel()
	h := wholeStory(t)
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			done := false
			for seed := range uint64(5) {
				r, ok := p.try(h, seed)
				if !ok {
					continue
				}
				done = true
				if err := p.caught(r); err != nil {
					t.Errorf("seed %d: %v\n%s", seed, err, report(t, r))
				}
			}
			if !done {
				t.Error("the story has no place for it")
			}
		})
	}
}
