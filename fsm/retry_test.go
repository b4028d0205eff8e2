package fsm

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

const day = 24 * 3600 * 1000

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	exp := func(initial, m, limit int64) RetryPolicy {
		return RetryPolicy{Kind: RetryExponential, InitialMillis: initial, MultiplierMilli: m, MaxMillis: limit, MaxAttempts: 1000}
	}
	for _, c := range []struct {
		name    string
		p       RetryPolicy
		attempt []int32
		want    []int64
	}{
		{"default is the schedule", RetryPolicy{}, []int32{0, 1, 2, 3, 4, 1000}, []int64{1000, 1000, 5000, 10000, 10000, 10000}},
		{"schedule", RetryPolicy{Kind: RetrySchedule, Steps: []int64{0, 7}}, []int32{1, 2, 3}, []int64{0, 7, 7}},
		{"fixed", RetryPolicy{Kind: RetryFixed, InitialMillis: 250}, []int32{1, 2, 1000}, []int64{250, 250, 250}},
		{"fixed defaults", RetryPolicy{Kind: RetryFixed}, []int32{1}, []int64{1000}},
		{"linear", RetryPolicy{Kind: RetryLinear, InitialMillis: 400, MaxMillis: 1000}, []int32{1, 2, 3, 1000}, []int64{400, 800, 1000, 1000}},
		{"linear at the ends of the ranges", RetryPolicy{Kind: RetryLinear, InitialMillis: 366 * day, MaxMillis: 366 * day},
			[]int32{1, 1000, math.MaxInt32}, []int64{366 * day, 366 * day, 366 * day}},
		{"exponential defaults: 1, 2, 4, 8 s", RetryPolicy{Kind: RetryExponential}, []int32{1, 2, 3, 4, 5, 6, 7}, []int64{1000, 2000, 4000, 8000, 16000, 32000, 60000}},
		{"factor 2, capped for ever", exp(1000, 2000, 60_000), []int32{31, 40, 63, 64, 65, 1000}, []int64{60_000, 60_000, 60_000, 60_000, 60_000, 60_000}},
		{"factor 10, capped at 366 days", exp(1, 10_000, 366*day), []int32{1, 2, 10, 11, 12, 31, 64, 1000},
			[]int64{1, 10, 1_000_000_000, 10_000_000_000, 366 * day, 366 * day, 366 * day, 366 * day}},
		{"factor 100", exp(366*day, 100_000, 366*day), []int32{1, 65, 1000}, []int64{366 * day, 366 * day, 366 * day}},
		{"factor 1", exp(1234, 1000, 60_000), []int32{1, 31, 64, 1000}, []int64{1234, 1234, 1234, 1234}},
		{"factor 1.001 in microseconds", exp(1, 1001, 60_000), []int32{1, 2, 693, 694, 695}, []int64{1, 1, 1, 1, 1}},
		{"factor 1.5", exp(100, 1500, 60_000), []int32{1, 2, 3, 4, 5}, []int64{100, 150, 225, 337, 506}},
		{"cap below the base", exp(5000, 2000, 300), []int32{1, 2, 1000}, []int64{300, 300, 300}},
		{"factor below 1 counts as 1", exp(1000, 1, 60_000), []int32{1, 2, 1000}, []int64{1000, 1000, 1000}},
		{"numbers that Validate refuses stay in range", RetryPolicy{Kind: RetryLinear, InitialMillis: math.MaxInt64, MaxMillis: math.MaxInt64},
			[]int32{1, 2, math.MaxInt32}, []int64{366 * day, 366 * day, 366 * day}},
		{"negative counts as zero", RetryPolicy{Kind: RetryFixed, InitialMillis: -5}, []int32{-3, 1}, []int64{0, 0}},
		{"negative jitter is none", RetryPolicy{Kind: RetryFixed, InitialMillis: 5, JitterMillis: -5}, []int32{1}, []int64{5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for i, n := range c.attempt {
				if got := c.p.Delay(MakeID(1, 2, 3, 4), n); got != c.want[i] {
					t.Errorf("attempt %d: %d ms, want %d", n, got, c.want[i])
				}
			}
		})
	}
}

// TestRetryModel checks delays against the definition in exact arithmetic of any size.
func TestRetryModel(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(testSeed(t), 0))
	id := ID{rnd.Uint64(), rnd.Uint64()}
	for range 300 {
		p := RetryPolicy{
			Kind: RetryExponential, InitialMillis: 1 + rnd.Int64N(366*day)>>rnd.IntN(35), MultiplierMilli: 1000 + rnd.Int64N(99_001)>>rnd.IntN(17),
			MaxMillis: 1 + rnd.Int64N(366*day)>>rnd.IntN(35),
		}
		limit := big.NewInt(p.MaxMillis * 1000)
		d := big.NewInt(p.InitialMillis * 1000)
		lower := func() {
			if d.Cmp(limit) > 0 {
				d.Set(limit)
			}
		}
		lower()
		last := int64(0)
		for n := int32(1); n <= 200; n++ {
			want := new(big.Int).Div(d, big.NewInt(1000)).Int64()
			got := p.Delay(id, n)
			if got != want || got < last {
				t.Fatalf("%+v attempt %d: %d, want %d (the one before %d)", p, n, got, want, last)
			}
			last = got
			d.Mul(d, big.NewInt(p.MultiplierMilli)).Div(d, big.NewInt(1000))
			lower()
		}
		lin := p
		lin.Kind = RetryLinear
		for _, n := range []int32{1, 2, 63, 1000} {
			want := new(big.Int).Mul(big.NewInt(p.InitialMillis), big.NewInt(int64(n)))
			if m := big.NewInt(p.MaxMillis); want.Cmp(m) > 0 {
				want = m
			}
			if got := lin.Delay(id, n); got != want.Int64() {
				t.Fatalf("linear %+v attempt %d: %d, want %v", lin, n, got, want)
			}
		}
	}
}

func TestRetryJitter(t *testing.T) {
	t.Parallel()
	p := RetryPolicy{Kind: RetryFixed, InitialMillis: 1000, JitterMillis: 500}
	// Golden: from an implementation of the definition in another language; every node and every version must get the same.
	for _, c := range []struct {
		id      ID
		attempt int32
		want    int64
	}{
		{ID{Hi: 0x0, Lo: 0x0}, 1, 1490},
		{ID{Hi: 0x5, Lo: 0x9}, 2, 1004},
		{ID{Hi: 0x1000000000000, Lo: 0x4d00000003}, 1, 1129},
		{ID{Hi: 0xffffffffffffffff, Lo: 0xffffffffffffffff}, 1000, 1034},
	} {
		if got := p.Delay(c.id, c.attempt); got != c.want {
			t.Errorf("%+v attempt %d: %d, want %d", c.id, c.attempt, got, c.want)
		}
	}
	if got := mix(0x9E3779B97F4A7C15); got != 0xE220A8397B1DCDAF { // first output of SplitMix64 with seed 0
		t.Errorf("mix is not the SplitMix64 finaliser: %#x", got)
	}
	// Neighbouring ids spread over the whole range, never earlier than asked and never later.
	var hist [10]int
	for i := range uint32(10_000) {
		d := p.Delay(MakeID(1, 0, 77, i), 1)
		if d < 1000 || d > 1500 {
			t.Fatalf("delay %d, want 1000 to 1500", d)
		}
		hist[min(9, (d-1000)/50)]++
	}
	for i, n := range hist {
		if n < 800 || n > 1250 {
			t.Errorf("tenth %d of the range has %d of 10000", i, n)
		}
	}
	wide := RetryPolicy{Kind: RetrySchedule, Steps: []int64{366 * day}, JitterMillis: 366 * day}
	for i := range uint32(1000) {
		if d := wide.Delay(ID{Lo: uint64(i)}, 1); d < 366*day || d > 2*366*day {
			t.Fatalf("delay %d", d)
		}
	}
}

func TestRetryAttempts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p    RetryPolicy
		want int32
	}{
		{RetryPolicy{}, 4},
		{RetryPolicy{Kind: RetrySchedule, Steps: []int64{1}}, 2},
		{RetryPolicy{Kind: RetrySchedule, Steps: make([]int64, 100)}, 101},
		{RetryPolicy{Kind: RetryFixed}, 5},
		{RetryPolicy{Kind: RetryLinear, MaxAttempts: 1}, 1},
		{RetryPolicy{Kind: RetryExponential, MaxAttempts: 1000}, 1000},
		{RetryPolicy{Kind: RetryExponential, MaxAttempts: -3}, 1},
	} {
		if got := c.p.Attempts(); got != c.want {
			t.Errorf("%+v: %d attempts, want %d", c.p, got, c.want)
		}
	}
}

func TestRetryNormalize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ in, want RetryPolicy }{
		{RetryPolicy{}, RetryPolicy{Kind: RetrySchedule, Steps: []int64{1000, 5000, 10000}}},
		{RetryPolicy{JitterMillis: 9}, RetryPolicy{Kind: RetrySchedule, Steps: []int64{1000, 5000, 10000}, JitterMillis: 9}},
		{RetryPolicy{Kind: RetryFixed, MultiplierMilli: 7000}, RetryPolicy{Kind: RetryFixed, InitialMillis: 1000, MaxAttempts: 5}},
		{RetryPolicy{Kind: RetryLinear}, RetryPolicy{Kind: RetryLinear, InitialMillis: 1000, MaxMillis: 60_000, MaxAttempts: 5}},
		{RetryPolicy{Kind: RetryExponential, InitialMillis: 7, MaxAttempts: 3},
			RetryPolicy{Kind: RetryExponential, InitialMillis: 7, MultiplierMilli: 2000, MaxMillis: 60_000, MaxAttempts: 3}},
		{RetryPolicy{Kind: 77, InitialMillis: 7}, RetryPolicy{Kind: 77, InitialMillis: 7}},
	} {
		got := c.in
		got.Normalize()
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v: %+v, want %+v", c.in, got, c.want)
		}
		again := got
		again.Normalize()
		if !again.Equal(&got) || got.Kind <= RetryExponential && got.Validate() != nil {
			t.Errorf("%+v: not stable or not valid: %v", got, got.Validate())
		}
		for n := int32(1); n < 9; n++ { // filling in the defaults changes nothing
			if a, b := c.in.Delay(ID{}, n), got.Delay(ID{}, n); a != b || c.in.Attempts() != got.Attempts() {
				t.Errorf("%+v attempt %d: %d before, %d after", c.in, n, a, b)
			}
		}
	}
	a, b := RetryPolicy{}, RetryPolicy{}
	a.Normalize()
	b.Normalize()
	a.Steps[0] = 5
	if b.Steps[0] != 1000 || (&RetryPolicy{}).Delay(ID{}, 1) != 1000 {
		t.Error("policies share the default schedule")
	}
}

func TestRetryValidate(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		p    RetryPolicy
		want string // "" is good
	}{
		{RetryPolicy{}, ""},
		{RetryPolicy{Kind: 5}, "kind 5 is unknown"},
		{RetryPolicy{Kind: RetrySchedule}, "schedule steps 0, want 1 to 100"},
		{RetryPolicy{Kind: RetrySchedule, Steps: make([]int64, 100)}, ""},
		{RetryPolicy{Kind: RetrySchedule, Steps: make([]int64, 101)}, "schedule steps 101"},
		{RetryPolicy{Kind: RetrySchedule, Steps: []int64{1, -1}}, "schedule step 2 -1"},
		{RetryPolicy{Kind: RetrySchedule, Steps: []int64{366 * day}}, ""},
		{RetryPolicy{Kind: RetrySchedule, Steps: []int64{366*day + 1}}, fmt.Sprint(366*day + 1)},
		{RetryPolicy{Kind: RetryFixed, Steps: []int64{1}}, "steps are given"},
		{RetryPolicy{Kind: RetryFixed, InitialMillis: -1}, "initial_ms -1"},
		{RetryPolicy{Kind: RetryFixed, InitialMillis: 366*day + 1}, "initial_ms"},
		{RetryPolicy{Kind: RetryLinear, MaxMillis: 366*day + 1}, "max_ms"},
		{RetryPolicy{Kind: RetryExponential, MultiplierMilli: 999}, "multiplier in thousandths 999, want 1000 to 100000"},
		{RetryPolicy{Kind: RetryExponential, MultiplierMilli: 100_001}, "multiplier"},
		{RetryPolicy{Kind: RetryExponential, MaxAttempts: 1001}, "max_attempts 1001, want 1 to 1000"},
		{RetryPolicy{Kind: RetryExponential, MaxAttempts: -1}, "max_attempts -1"},
		{RetryPolicy{JitterMillis: -1}, "jitter_ms -1"},
		{RetryPolicy{JitterMillis: 366*day + 1}, "jitter_ms"},
	} {
		err := c.p.Validate()
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.p, err, c.want)
		}
	}
}
