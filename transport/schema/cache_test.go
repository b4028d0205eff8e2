package schema

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// A cache keeps what was asked for last, errors too, and no more than it may.
func TestCache(t *testing.T) {
	t.Parallel()
	c := NewCache(2, 1<<20)
	a, err := c.Get("true")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Get("{"); err == nil {
		t.Fatal("what is no schema is one")
	}
	if again, _ := c.Get("true"); again != a {
		t.Error("compiled again")
	}
	if _, err := c.Get("false"); err != nil { // pushes out "{"
		t.Fatal(err)
	}
	if again, _ := c.Get("true"); again != a || len(c.all) != 2 {
		t.Errorf("the one used last is gone, or %d are kept", len(c.all))
	}
}

// wideSchema has about so many parts, and is another for each name.
func wideSchema(name string, parts int) string {
	return `{"title":"` + name + `","prefixItems":[` + strings.TrimSuffix(strings.Repeat("{},", parts), ",") + `]}`
}

// What is kept is bounded by what it takes, too, and what is counted is what is there.
func TestCacheIsBoundedInBytes(t *testing.T) {
	t.Parallel()
	const most = 20 << 20
	c := NewCache(1000, most)
	for i := range 40 {
		if _, err := c.Get(wideSchema(fmt.Sprint(i), 1000)); err != nil { // 1.7 MB a copy, two copies
			t.Fatal(err)
		}
	}
	n, bytes := c.Held()
	if n < 3 || n > 8 || bytes > most || bytes < most/2 {
		t.Errorf("%d schemas of %d bytes are kept, want about six, of at most %d", n, bytes, most)
	}
	sum := 0
	for text, e := range c.all {
		if e.bytes != e.schema.Bytes() || e.text != text {
			t.Errorf("%d bytes are counted for one of %d", e.bytes, e.schema.Bytes())
		}
		sum += e.bytes
	}
	if sum != bytes {
		t.Errorf("%d bytes are kept and %d counted", sum, bytes)
	}
	for i := 39; i > 39-n; i-- {
		if c.all[wideSchema(fmt.Sprint(i), 1000)] == nil {
			t.Errorf("the %dth is gone, which was used after others that are kept", i)
		}
	}
	small := NewCache(1000, 1000)
	a, err := small.Get(wideSchema("a", 1000))
	if again, _ := small.Get(wideSchema("a", 1000)); err != nil || again != a {
		t.Errorf("what is larger than all that may be kept is not kept alone: %v", err)
	}
	if _, err := small.Get("true"); err != nil {
		t.Fatal(err)
	}
	if n, bytes := small.Held(); n != 1 || bytes > 100_000 {
		t.Errorf("%d schemas of %d bytes are kept beside", n, bytes)
	}
}

// Those who ask at once wait for one to compile it.
func TestCacheCompilesOnce(t *testing.T) {
	t.Parallel()
	c := NewCache(8, 1<<20)
	got := make([]*Schema, 16)
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() { got[i], _ = c.Get(orders) })
	}
	wg.Wait()
	for _, s := range got {
		if s == nil || s != got[0] {
			t.Fatalf("%p and %p", s, got[0])
		}
	}
}

// What a schema takes is not more than what is estimated, or hardly.
func TestEstimate(t *testing.T) {
	named := func(n int, v string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `"%d":%s,`, i, v)
		}
		return "{" + strings.TrimSuffix(b.String(), ",") + "}"
	}
	many := func(n int, s string) string { return "[" + strings.TrimSuffix(strings.Repeat(s+",", n), ",") + "]" }
	for name, text := range map[string]string{
		"parts":      `{"prefixItems":` + many(4000, "{}") + `}`,
		"booleans":   `{"prefixItems":` + many(4000, "true") + `}`,
		"properties": `{"properties":` + named(2000, `{"not":{}}`) + `}`,
		"numbers":    `{"enum":` + many(32_000, "1") + `}`,
		"objects":    `{"enum":` + many(4900, `{"":1}`) + `}`,
		"classes":    `{"properties":` + named(20, `{"pattern":"(\\pL|\\pN|x)"}`) + `}`,
		"patterns":   `{"properties":` + named(1000, `{"pattern":"[a-c]"}`) + `}`,
		"text":       `{"title":"` + strings.Repeat("a", 60_000) + `"}`,
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		c, err := compile(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if took := int(after.HeapAlloc) - int(before.HeapAlloc); took > c.size+c.size/4+64<<10 {
			t.Errorf("%s takes %d bytes, estimated at %d", name, took, c.size)
		}
		runtime.KeepAlive(c)
	}
}

func TestPartsAreBounded(t *testing.T) {
	t.Parallel()
	if _, err := Compile(wideSchema("a", maxParts+1)); err == nil || !strings.Contains(err.Error(), "more than 5000 parts") {
		t.Errorf("%v, want too many parts", err)
	}
	hidden := `{"$ref":"#/enum/0","enum":[` + wideSchema("a", maxParts+1) + `]}`
	if _, err := Compile(hidden); err == nil || !strings.Contains(err.Error(), "more than 5000 parts") {
		t.Errorf("among values: %v, want too many parts", err)
	}
	if _, err := Compile(`{"enum":[` + numbers(12_000) + `]}`); err != nil {
		t.Errorf("values that are no parts: %v", err)
	}
}

// leaving is a context that has ended when it has been asked so many times.
type leaving struct {
	context.Context
	asked, after int
}

func (c *leaving) Err() error {
	if c.asked++; c.asked > c.after {
		return context.Canceled
	}
	return nil
}

// A judgement ends soon after whoever waits for it has gone, wherever it is, and the next one is as if nothing had been.
func TestCheckEnds(t *testing.T) {
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	s := mustCompile(t, branching(40, "allOf", `{"type":"number"}`))
	big := []byte(`"` + strings.Repeat("a", largeBody) + `"`)

	if err := s.Check(gone, []byte(`1`)); !errors.Is(err, ErrStopped) {
		t.Errorf("%v, want ErrStopped", err)
	}
	c := s.take(t.Context())
	if err := c.check(&leaving{Context: t.Context(), after: 3}, "x", 1<<20); !errors.Is(err, ErrStopped) {
		t.Errorf("in the middle: %v, want ErrStopped", err)
	}
	if used := c.meter.most - c.meter.left; used < 3*stepsLook || used > 5*stepsLook {
		t.Errorf("it ended after %d steps, want about %d", used, 4*stepsLook)
	}
	if c.meter.ctx != nil {
		t.Error("it is held on to")
	}
	s.free <- c

	waits := func(what string, places chan struct{}, body []byte) {
		t.Helper()
		for range cap(places) {
			places <- struct{}{}
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- s.Check(ctx, body) }()
		cancel()
		if err := <-done; !errors.Is(err, ErrStopped) {
			t.Errorf("waiting for %s: %v, want ErrStopped", what, err)
		}
		for range cap(places) {
			<-places
		}
	}
	waits("a large one", large, big)
	waits("a turn", turns, []byte(`1`))

	var taken []*compiled
	for range copies {
		taken = append(taken, s.take(t.Context()))
	}
	if c := s.take(gone); c != nil {
		t.Error("a copy that there is not")
	}
	for _, c := range taken {
		s.free <- c
	}
	if err := s.Check(t.Context(), []byte(`1`)); err == nil || !strings.Contains(err.Error(), "too much work") {
		t.Errorf("afterwards: %v", err)
	}
	if len(large) != 0 || len(turns) != 0 || len(s.free) != s.made {
		t.Errorf("%d large ones, %d turns and %d of %d copies are held", len(large), len(turns), s.made-len(s.free), s.made)
	}
}
