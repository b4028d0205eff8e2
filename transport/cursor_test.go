package transport

import (
	"fmt"
	"math"
	"testing"

	"github.com/quorate/quorate/fsm"
)

// FuzzCursor: a cursor that is taken names one place, and nothing but a place is taken.
func FuzzCursor(f *testing.F) {
	for _, at := range []int64{0, 1, -1, math.MaxInt64, math.MinInt64} {
		f.Add(fmt.Sprintf("%d.%s", at, fsm.MakeID(1, 2, 3, 4)))
	}
	for _, s := range []string{"", ".", "1.", ".x", "1.x", "1.2.3", "+1." + fsm.MakeID(0, 0, 1, 0).String(), "9223372036854775808." + fsm.MakeID(0, 0, 1, 0).String()} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		at, id, ok := parseCursor(s)
		if !ok {
			return
		}
		again, same, ok := parseCursor(fmt.Sprintf("%d.%s", at, id))
		if !ok || again != at || same != id {
			t.Errorf("%q is (%d, %s), which reads as (%d, %s, %v)", s, at, id, again, same, ok)
		}
	})
}
