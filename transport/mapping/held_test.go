package mapping

import (
	"runtime"
	"strings"
	"testing"
)

// What a program takes is not more than what is estimated, or hardly.
func TestProgramBytes(t *testing.T) {
	for _, e := range []string{
		"body.id", strings.TrimSuffix(strings.Repeat("1+", 490), "+"), "[" + strings.TrimSuffix(strings.Repeat("body.a,", 240), ",") + "]",
		strings.Repeat("map([1], ", 60) + "#" + strings.Repeat(")", 60), "[" + strings.TrimSuffix(strings.Repeat("map([], #),", 150), ",") + "]",
		strings.TrimSuffix(strings.Repeat("1<2<3 and ", 100), " and "), "{" + strings.TrimSuffix(strings.Repeat("a: body.a,", 190), ",") + "}",
		`"` + strings.Repeat("a", 4000) + `"`,
	} {
		if _, err := Compile(e, Body); err != nil {
			t.Fatalf("%.20s: %v", e, err)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		const copies = 8
		var all [copies]*Program
		for i := range all {
			all[i], _ = Compile(e, Body)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if took := (int(after.HeapAlloc) - int(before.HeapAlloc)) / copies; took > all[0].Bytes()+all[0].Bytes()/4 {
			t.Errorf("%.20s takes %d bytes, estimated at %d", e, took, all[0].Bytes())
		}
		if all[0].Bytes() > maxBytes {
			t.Errorf("%.20s is estimated at %d bytes, more than any takes", e, all[0].Bytes())
		}
		runtime.KeepAlive(all)
	}
}

// Programs are kept as long as there is room for them.
func TestHeld(t *testing.T) {
	p, err := Compile(strings.TrimSuffix(strings.Repeat("1+", 490), "+"), Body)
	if err != nil {
		t.Fatal(err)
	}
	before, bytes := Held()
	kept := 0
	for err = p.Keep(); err == nil; err = p.Keep() {
		kept++
	}
	if n, b := Held(); n != before+kept || b != bytes+kept*p.Bytes() || b > maxHeld || b+p.Bytes() <= maxHeld {
		t.Errorf("%d programs of %d bytes are kept, want %d of %d", n, b, before+kept, bytes+kept*p.Bytes())
	}
	if !strings.Contains(err.Error(), "fewer or shorter ones would be right") {
		t.Error(err)
	}
	for range kept {
		p.Drop()
	}
	if n, b := Held(); n != before || b != bytes {
		t.Errorf("%d programs of %d bytes are left, want %d of %d", n, b, before, bytes)
	}
}
