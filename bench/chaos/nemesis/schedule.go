package nemesis

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// Duration is a length of time that stands in JSON as text: "1.5s".
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%q is no length of time, want one like 1.5s or 300ms", b)
	}
	*d = Duration(v)
	return nil
}

func (d Duration) String() string { return time.Duration(d).String() }

// Schedule is a run as data: which faults strike whom, when and for how long. Who leads is found out when a fault strikes, so that a
// schedule that is run again meets other leaders.
type Schedule struct {
	Seed  uint64   `json:"seed"`  // of whatever a fault or the clients draw while the run goes on
	Kind  string   `json:"kind"`  // one of Kinds
	Nodes int      `json:"nodes"` // 3 to 9
	For   Duration `json:"for"`   // how long clients work before the queues are drained
	Quiet Duration `json:"quiet"` // how much of that, at its end, is without faults
	// Faults by At. One that begins while others go on takes nodes that those leave alone.
	Faults []Fault `json:"faults"`
}

// Fault is one fault.
type Fault struct {
	At   Duration `json:"at"`  // since clients began
	For  Duration `json:"for"` // until it is healed
	Kind string   `json:"kind"`
	// Target says who: leader, follower, minority, majority, all, or labels with commas between them. Which of them a kind takes is in
	// its help; "" where it takes none.
	Target string `json:"target,omitempty"`

	// Parameters, each of some kinds alone.
	Skew    Duration  `json:"skew,omitempty"`    // clocks: by how much
	Every   Duration  `json:"every,omitempty"`   // strobe, flap and swizzle: the pace
	Percent int       `json:"percent,omitempty"` // throttle: of one CPU
	Clients bool      `json:"clients,omitempty"` // isolate: from the clients too
	Net     *NetShape `json:"net,omitempty"`     // shape
}

// NetShape is a Shape in a schedule.
type NetShape struct {
	DelayLow  Duration `json:"delay_low,omitempty"`
	DelayHigh Duration `json:"delay_high,omitempty"`
	Loss      int      `json:"loss,omitempty"`
	Duplicate int      `json:"duplicate,omitempty"`
	Reorder   int      `json:"reorder,omitempty"`
	Kbit      int      `json:"kbit,omitempty"`
}

// Bounds of a schedule: a file cannot ask for what would not end or not fit.
const (
	minNodes, maxNodes = 3, 9
	maxFor             = 4 * time.Hour
	maxFaults          = 20_000
	maxSchedule        = 16 << 20 // bytes of a file
)

// faultKind is what there is to say about a kind of fault, and what it does.
type faultKind struct {
	help    string
	targets []string // words that it takes; labels it takes where it takes any
	pair    bool     // it takes two labels, in their order, and no words
	params  []string // JSON names
	needs   func(Means) bool
	lacks   string // what is missing where needs says no
	run     func(*strike) error
}

// Means is what a run can have on this machine.
type Means struct {
	Network bool // a Network: bench/chaos/netswitch, in an enclosed process
	Disks   bool // disks of bench/chaos/forgetfs
	CPU     bool // cgroups that limit CPU time
	TimeNS  bool // time namespaces
}

// everything is all that a run could have.
var everything = Means{Network: true, Disks: true, CPU: true, TimeNS: true}

// anyone are the words for nodes.
var anyone = []string{"leader", "follower", "minority", "majority", "all"}

var oneNode = []string{"leader", "follower"}

// faultKinds are all kinds of faults. It is filled by init, since what they run looks them up.
var faultKinds map[string]*faultKind

// faultNames lists the kinds.
func faultNames() []string {
	var all []string
	for k := range faultKinds {
		all = append(all, k)
	}
	slices.Sort(all)
	return all
}

// ReadSchedule reads a schedule from a file, strictly.
func ReadSchedule(file string) (*Schedule, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read schedule: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSchedule+1))
	if err != nil {
		return nil, fmt.Errorf("read schedule: %w", err)
	}
	if len(b) > maxSchedule {
		return nil, fmt.Errorf("schedule %s has more than %d bytes", file, maxSchedule)
	}
	s, err := ParseSchedule(b)
	if err != nil {
		return nil, fmt.Errorf("schedule %s: %w", file, err)
	}
	return s, nil
}

// ParseSchedule reads a schedule strictly: what it does not know is an error.
func ParseSchedule(b []byte) (*Schedule, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	s := new(Schedule)
	if err := d.Decode(s); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more behind the schedule")
	}
	return s, s.Validate()
}

// Write writes the schedule to a file that does not exist yet.
func (s *Schedule) Write(file string) error {
	b, err := json.MarshalIndent(s, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(b, '\n'), 0o600)
}

// Validate names the first thing that cannot be, and what can.
func (s *Schedule) Validate() error {
	switch {
	case !slices.Contains(Kinds, s.Kind):
		return fmt.Errorf("kind is %q, want one of %s", s.Kind, strings.Join(Kinds, ", "))
	case s.Nodes < minNodes || s.Nodes > maxNodes:
		return fmt.Errorf("nodes is %d, want %d to %d", s.Nodes, minNodes, maxNodes)
	case s.For <= 0 || s.For > Duration(maxFor):
		return fmt.Errorf("for is %s, want more than 0 and at most %s", s.For, maxFor)
	case s.Quiet < 0 || s.Quiet >= s.For:
		return fmt.Errorf("quiet is %s, want less than the %s of the run", s.Quiet, s.For)
	case len(s.Faults) > maxFaults:
		return fmt.Errorf("there are %d faults, want at most %d", len(s.Faults), maxFaults)
	}
	for i := range s.Faults {
		f := &s.Faults[i]
		if err := f.validate(s.Nodes); err != nil {
			return fmt.Errorf("fault %d (%s): %w", i, f.Kind, err)
		}
		switch {
		case i > 0 && f.At < s.Faults[i-1].At:
			return fmt.Errorf("fault %d (%s) is at %s, before the one that stands before it", i, f.Kind, f.At)
		case f.At < 0 || f.At+f.For > s.For-s.Quiet:
			return fmt.Errorf("fault %d (%s) lasts from %s to %s, want it within 0s and %s, when the quiet begins", i, f.Kind, f.At, f.At+f.For, s.For-s.Quiet)
		}
	}
	return nil
}

func (f *Fault) validate(nodes int) error {
	k := faultKinds[f.Kind]
	if k == nil {
		return fmt.Errorf("there is no such kind of fault, only %s", strings.Join(faultNames(), ", "))
	}
	if f.For < 0 {
		return fmt.Errorf("for is %s, want 0 or more", f.For)
	}
	if err := k.checkTarget(f.Target, nodes); err != nil {
		return err
	}
	for name, set := range map[string]bool{
		"skew": f.Skew != 0, "every": f.Every != 0, "percent": f.Percent != 0, "clients": f.Clients, "net": f.Net != nil,
	} {
		if takes := slices.Contains(k.params, name); set && !takes {
			return fmt.Errorf("it takes no %s; %s", name, k.help)
		} else if takes && !set && name != "clients" {
			return fmt.Errorf("it needs %s; %s", name, k.help)
		}
	}
	if f.Percent < 0 || f.Percent > 100 {
		return fmt.Errorf("percent is %d, want 1 to 100", f.Percent)
	}
	if f.Every < 0 || f.Every != 0 && time.Duration(f.Every) < 10*time.Millisecond {
		return fmt.Errorf("every is %s, want 10ms or more", f.Every)
	}
	if n := f.Net; n != nil {
		for name, v := range map[string]int{"loss": n.Loss, "duplicate": n.Duplicate, "reorder": n.Reorder} {
			if v < 0 || v > 100 {
				return fmt.Errorf("net.%s is %d, want 0 to 100 percent", name, v)
			}
		}
		if n.DelayLow < 0 || n.DelayHigh < n.DelayLow || n.Kbit < 0 {
			return fmt.Errorf("net has a delay of %s to %s and %d kbit/s, want delays that rise from 0 and a rate from 0", n.DelayLow, n.DelayHigh, n.Kbit)
		}
	}
	return nil
}

func (k *faultKind) checkTarget(target string, nodes int) error {
	switch {
	case len(k.targets) == 0 && target == "" && !k.pair, slices.Contains(k.targets, target):
		return nil
	case len(k.targets) == 0 && !k.pair:
		return fmt.Errorf("target is %q, and it takes none; %s", target, k.help)
	}
	want := "labels from n1"
	switch {
	case k.pair:
		want = "two labels from n1"
	case len(k.targets) > 0:
		want = strings.Join(k.targets, ", ") + ", or labels from n1"
	}
	seen := map[string]bool{}
	for label := range strings.SplitSeq(target, ",") {
		var n int
		if _, err := fmt.Sscanf(label, "n%d", &n); err != nil || label != fmt.Sprintf("n%d", n) || n < 1 || n > nodes || seen[label] {
			return fmt.Errorf("target is %q, want %s to n%d, each once, with commas between them; %s", target, want, nodes, k.help)
		}
		seen[label] = true
	}
	if k.pair && len(seen) != 2 {
		return fmt.Errorf("target is %q, want %s to n%d; %s", target, want, nodes, k.help)
	}
	return nil
}

// ErrMeans says that a run needs what cannot be had on this machine.
var ErrMeans = errors.New("cannot be run here")

// ScheduleFile is a schedule's name in the folder of its run.
const ScheduleFile = "schedule.json"

// Possible says why a schedule cannot be run with these means, nil if it can be.
func (s *Schedule) Possible(m Means) error {
	for i := range s.Faults {
		if k := faultKinds[s.Faults[i].Kind]; k.needs != nil && !k.needs(m) {
			return fmt.Errorf("%w: fault %d is of kind %s, which needs %s", ErrMeans, i, s.Faults[i].Kind, k.lacks)
		}
	}
	return nil
}
