package nemesis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Kinds of runs, in the order of a whole programme; mixed has all that the others have.
var Kinds = []string{"none", "kill", "pause", "partition", "net", "clock", "member", "disk", Mixed}

// Mixed is the kind of run that has faults of all kinds.
const Mixed = "mixed"

// QuietTail is how long a drawn run goes on after its last fault.
const QuietTail = 10 * time.Second

// card is a fault, or a few that belong together, to be drawn.
type card struct {
	kind   string
	target string
	low    time.Duration // how long: drawn between the two, more of it short than long
	high   time.Duration
	also   *card // begins within a second after it, while it goes on
}

// decks has the cards of each kind of run. All cards of a deck are dealt before one comes again.
var decks = map[string][]card{
	"none": nil,
	"kill": {
		{kind: "kill", target: "leader", low: 100 * ms, high: 3 * time.Second},
		{kind: "kill", target: "minority", low: 500 * ms, high: 4 * time.Second},
		{kind: "kill", target: "majority", low: 300 * ms, high: 2 * time.Second},
		{kind: "kill", target: "leader", low: 1500 * ms, high: 4 * time.Second},
		{kind: "kill", target: "all", low: 10 * ms, high: time.Second},
	},
	"pause": {
		{kind: "pause", target: "leader", low: 100 * ms, high: 8 * time.Second},
		{kind: "pause", target: "follower", low: 100 * ms, high: 8 * time.Second},
		{kind: "pause", target: "majority", low: 100 * ms, high: 5 * time.Second},
		{kind: "pause", target: "leader", low: 700 * ms, high: 4 * time.Second},
		{kind: "pause_workers", low: 600 * ms, high: 3 * time.Second},
		{kind: "throttle", target: "leader", low: 2 * time.Second, high: 5 * time.Second},
		{kind: "throttle", target: "follower", low: 2 * time.Second, high: 5 * time.Second},
	},
	"partition": {
		{kind: "isolate", target: "leader", low: time.Second, high: 4 * time.Second},
		{kind: "halves", target: "minority", low: time.Second, high: 4 * time.Second},
		{kind: "halves", target: "leader", low: time.Second, high: 4 * time.Second},
		{kind: "ring", low: time.Second, high: 4 * time.Second},
		{kind: "bridge", target: "follower", low: time.Second, high: 4 * time.Second},
		{kind: "deaf", target: "leader", low: time.Second, high: 4 * time.Second},
		{kind: "mute", target: "leader", low: time.Second, high: 4 * time.Second},
		{kind: "flap", target: "leader", low: 2 * time.Second, high: 5 * time.Second},
		{kind: "swizzle", low: 2 * time.Second, high: 5 * time.Second},
	},
	"net": {
		{kind: "shape", low: 2 * time.Second, high: 5 * time.Second},
		{kind: "shape", low: 2 * time.Second, high: 5 * time.Second},
		{kind: "reset", target: "leader"},
		{kind: "shape", low: 2 * time.Second, high: 5 * time.Second},
		{kind: "reset", target: "all"},
	},
	"clock": {
		{kind: "clock_jump", target: "leader", low: 500 * ms, high: 4 * time.Second},
		{kind: "clock_jump", target: "follower", low: 500 * ms, high: 4 * time.Second, also: &card{kind: "kill", target: "leader", low: 100 * ms, high: time.Second}},
		{kind: "clock_jump", target: "all", low: 500 * ms, high: 4 * time.Second},
		{kind: "clock_strobe", target: "leader", low: time.Second, high: 4 * time.Second},
		{kind: "clock_strobe", target: "all", low: time.Second, high: 4 * time.Second},
		{kind: "mono_jump", target: "leader", low: 10 * ms, high: time.Second},
		{kind: "mono_jump", target: "follower", low: 10 * ms, high: time.Second},
	},
	"member": {
		{kind: "transfer", target: "follower"},
		{kind: "remove", target: "follower", low: 300 * ms, high: 2 * time.Second},
		{kind: "remove", target: "follower", low: time.Second, high: 3 * time.Second, also: &card{kind: "kill", target: "leader", low: 100 * ms, high: time.Second}},
		{kind: "replace", target: "follower", low: 100 * ms, high: 2 * time.Second},
		{kind: "transfer", target: "follower", also: &card{kind: "kill", target: "leader", low: 100 * ms, high: time.Second}},
		{kind: "replace", target: "leader", low: 100 * ms, high: 2 * time.Second},
		{kind: "wiped", target: "follower", low: 1500 * ms, high: 3 * time.Second},
		{kind: "remove", target: "follower", low: time.Second, high: 3 * time.Second, also: &card{kind: "isolate", target: "leader", low: time.Second, high: 3 * time.Second}},
	},
	"disk": {
		{kind: "disk_eio", target: "leader", low: 100 * ms, high: 2 * time.Second},
		{kind: "disk_full", target: "follower", low: 100 * ms, high: 2 * time.Second},
		{kind: "disk_stall", target: "leader", low: 200 * ms, high: 5 * time.Second},
		{kind: "disk_readonly", target: "leader", low: 100 * ms, high: 2 * time.Second},
		{kind: "power", target: "follower", low: 300 * ms, high: 2 * time.Second, also: &card{kind: "pause", target: "majority", low: 500 * ms, high: 2 * time.Second}},
		{kind: "disk_stall", target: "follower", low: 200 * ms, high: 5 * time.Second},
		{kind: "disk_eio", target: "follower", low: 100 * ms, high: 2 * time.Second},
		{kind: "power", target: "all", low: 10 * ms, high: time.Second},
		{kind: "disk_full", target: "leader", low: 100 * ms, high: 2 * time.Second},
		{kind: "power", target: "majority", low: 10 * ms, high: time.Second},
	},
}

const ms = time.Millisecond

func init() {
	for _, kind := range Kinds {
		decks[Mixed] = append(decks[Mixed], decks[kind]...)
	}
}

// lacks says what a card needs that these means do not have, "" where it can be played.
func (c *card) lacks(m Means) string {
	if k := faultKinds[c.kind]; k.needs != nil && !k.needs(m) {
		return k.lacks
	}
	if c.also != nil {
		return c.also.lacks(m)
	}
	return ""
}

// Draw makes the schedule of a kind of run from a seed. Cards that need what cannot be had are left out; where none is left for a kind
// of run, that is an error.
func Draw(seed uint64, kind string, nodes int, length time.Duration, m Means) (*Schedule, error) {
	s := &Schedule{Seed: seed, Kind: kind, Nodes: nodes, For: Duration(length), Quiet: Duration(QuietTail)}
	if length < 4*QuietTail {
		s.Quiet = Duration(length / 4)
	}
	if err := s.Validate(); err != nil {
		return nil, err
	}
	var deck []card
	var lacks []string
	for _, c := range decks[kind] {
		l := c.lacks(m)
		if l == "" {
			deck = append(deck, c)
		} else if !slices.Contains(lacks, l) {
			lacks = append(lacks, l)
		}
	}
	if len(deck) == 0 {
		if len(decks[kind]) > 0 {
			return nil, fmt.Errorf("%w: a run of kind %s needs %s", ErrMeans, kind, strings.Join(lacks, ", "))
		}
		return s, nil
	}
	rng := rand.New(rand.NewPCG(seed, 3))
	end := time.Duration(s.For - s.Quiet)
	at := time.Second + draw(rng, 0, time.Second)
	for hand := []int(nil); ; hand = hand[1:] {
		if len(hand) == 0 {
			hand = rng.Perm(len(deck))
		}
		c := &deck[hand[0]]
		first := c.fault(rng, at)
		last := first.At + first.For
		s.Faults = append(s.Faults, first)
		if c.also != nil {
			f := c.also.fault(rng, at+draw(rng, 50*ms, 800*ms))
			s.Faults = append(s.Faults, f)
			last = max(last, f.At+f.For)
		}
		// Every 3 to 8 seconds, and a second after the last has been healed: what a fault has left behind is met by the next.
		u := rng.Float64()
		next := max(at+3*time.Second+time.Duration(u*u*u*u*float64(5*time.Second)), time.Duration(last)+time.Second)
		if time.Duration(last) > end {
			n := len(s.Faults) - 1
			if c.also != nil {
				n--
			}
			s.Faults = s.Faults[:n]
			break
		}
		at = next.Truncate(ms)
	}
	if len(s.Faults) == 0 {
		return nil, fmt.Errorf("a run of %s has no room for a fault", length)
	}
	return s, s.Validate()
}

// draw is a length between the two, its logarithm evenly spread, in whole milliseconds.
func draw(rng *rand.Rand, low, high time.Duration) time.Duration {
	if high <= low {
		return low
	}
	l, h := math.Log(float64(low+ms)), math.Log(float64(high+ms))
	return (time.Duration(math.Exp(l+rng.Float64()*(h-l))) - ms).Truncate(ms)
}

// fault draws what a card leaves open.
func (c *card) fault(rng *rand.Rand, at time.Duration) Fault {
	f := Fault{At: Duration(at.Truncate(ms)), For: Duration(draw(rng, c.low, c.high)), Kind: c.kind, Target: c.target}
	switch c.kind {
	case "throttle":
		f.Percent = 5
	case "clock_jump", "clock_strobe":
		f.Skew = Duration(draw(rng, time.Second, time.Hour))
		if rng.IntN(2) == 0 {
			f.Skew = -f.Skew
		}
		if c.kind == "clock_strobe" {
			f.Every = Duration(draw(rng, 50*ms, 500*ms))
		}
	case "mono_jump":
		f.Skew = Duration(draw(rng, time.Minute, 24*time.Hour).Truncate(time.Second))
	case "isolate":
		f.Clients = rng.IntN(2) == 0
	case "flap":
		f.Every = Duration(draw(rng, 200*ms, 2*time.Second))
	case "swizzle":
		f.Every = Duration(draw(rng, 100*ms, 800*ms))
	case "shape":
		f.Net = drawShape(rng)
	}
	return f
}

// drawShape draws a bad network: slow and uneven, one that loses, one that repeats and reorders, a narrow one, or all of it.
func drawShape(rng *rand.Rand) *NetShape {
	var n NetShape
	which := rng.IntN(5)
	if which == 0 || which == 4 {
		n.DelayLow, n.DelayHigh = Duration(ms), Duration(draw(rng, 10*ms, 300*ms))
	}
	if which == 1 || which == 4 {
		n.Loss = 1 + rng.IntN(30)
	}
	if which == 2 || which == 4 {
		n.Duplicate, n.Reorder = 1+rng.IntN(30), 1+rng.IntN(30)
		n.DelayLow, n.DelayHigh = max(n.DelayLow, Duration(ms)), max(n.DelayHigh, Duration(5*ms))
	}
	if which == 3 || which == 4 {
		n.Kbit = 1000
	}
	return &n
}
