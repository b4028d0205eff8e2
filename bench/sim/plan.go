package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/quorate/quorate/bench/chaos/workload"
)

// Plan is a whole run as data: what is simulated, and every fault with its time. The same plan gives the same run in the wasm build.
type Plan struct {
	Seed    uint64   `json:"seed"` // of everything that is drawn while it runs
	Nodes   int      `json:"nodes"`
	Millis  int64    `json:"millis"`   // of the safety phase
	Kinds   []string `json:"kinds"`    // of queues, one each
	PaceMS  int64    `json:"pace_ms"`  // between two requests of a producer
	WaitMS  int64    `json:"wait_ms"`  // that a pull waits for a message
	CalmMS  int64    `json:"calm_ms"`  // between two tries of a client to reach a node, at most
	Raft    int64    `json:"raft_ms"`  // election time-out
	Snap    int64    `json:"snap"`     // bytes of log between two snapshots
	Minor   bool     `json:"minor"`    // the liveness phase begins with a majority alone
	Gapless []bool   `json:"gapless"`  // by node: its log store can have no gaps
	Writes  int64    `json:"write_us"` // a write takes up to that
	Net     Rates    `json:"net"`
	Clocks  []Tick   `json:"clocks"`            // by node
	Keys    int64    `json:"keys"`              // requests with an Idempotency-Key, each of which is sent again and again; 0: none
	Batch   int      `json:"batch,omitempty"`   // entries that raft sends in a request at most; 0: its default
	Pipe    int      `json:"pipe,omitempty"`    // requests that a pipeline has on their way at most; 0: 32
	NoCache bool     `json:"nocache,omitempty"` // the log is read from disk alone
	// Faults come in the order of At. One that cannot be carried out when its time has come is left out.
	Faults []Fault `json:"faults"`
}

// Rates are what a network does to messages.
type Rates struct {
	Loss  int64 `json:"loss"`     // in 10,000; of a stream's chunks: sent again 200 ms later
	Twice int64 `json:"twice"`    // in 10,000; raft's messages alone
	Late  int64 `json:"late"`     // in 10,000
	Least int64 `json:"least_us"` // delay
	Most  int64 `json:"most_us"`
	Spike int64 `json:"spike_ms"` // more, up to that, for those that are late
}

// Tick is a node's clock: by how much its wall is off, and how fast it runs.
type Tick struct {
	OffsetMS int64 `json:"offset_ms"`
	PPM      int64 `json:"ppm"`
}

// Fault is one fault.
type Fault struct {
	At   int64  `json:"at"`  // ms of the run
	For  int64  `json:"for"` // ms until it is healed
	What string `json:"what"`
	Node int    `json:"node"` // whom, -1: who leads then
	Arg  int64  `json:"arg,omitempty"`
}

// What faults there are.
const (
	cut       = "cut"        // a node from the others; clients reach it
	isolate   = "isolate"    // a node from all
	deaf      = "deaf"       // nothing reaches a node
	mute      = "mute"       // nothing that a node sends arrives
	halves    = "halves"     // the nodes in two parts; Arg has a bit for each
	bridge    = "bridge"     // two parts that share one node
	swizzle   = "swizzle"    // nodes are cut off one after the other, and come back in another order
	flap      = "flap"       // a node is cut off and comes back again and again
	strand    = "strand"     // a node from the clients
	storm     = "storm"      // the whole network is bad
	kill      = "kill"       // a process
	power     = "power"      // the power of a machine; Arg odd: while it writes several entries at once, if it does
	killMost  = "kill most"  // power of a majority
	killAll   = "kill all"   // power of all
	stop      = "stop"       // a process, in order
	stall     = "stall"      // a disk takes its time
	stallAll  = "stall all"  // all disks
	ioError   = "io error"   // a write fails: the node must stop
	full      = "disk full"  // the same, for want of room
	flip      = "flip"       // a bit of what is on a disk: the node must not start; it is replaced
	garble    = "garble"     // a bit of an entry on its way to a node: the node must stop
	pause     = "pause"      // a process, as its peers see it
	jump      = "clock jump" // a node's wall clock, by Arg ms
	rate      = "clock rate" // a node's clocks, to Arg ppm
	transfer  = "transfer"   // of leadership
	member    = "member"     // a node leaves, and comes back empty as another member
	snapshots = "snapshot"   // a node takes one
)

// kinds says for each fault how often it comes in relation to the others, and how long it lasts at most, in ms.
var kinds = []struct {
	what   string
	weight int
	most   int64
}{
	{cut, 8, 3000}, {isolate, 5, 3000}, {deaf, 4, 2500}, {mute, 4, 2500}, {halves, 4, 3000}, {bridge, 3, 3000}, {swizzle, 3, 3000}, {flap, 3, 3000},
	{strand, 3, 3000}, {storm, 5, 4000}, {kill, 8, 2500}, {power, 8, 2500}, {killMost, 2, 2000}, {killAll, 2, 1500}, {stop, 3, 2000},
	{stall, 5, 2500}, {stallAll, 2, 1200}, {ioError, 3, 1500}, {full, 2, 1500}, {flip, 2, 1000}, {garble, 2, 1500}, {pause, 6, 4000},
	{jump, 3, 0}, {rate, 2, 0}, {transfer, 5, 0}, {member, 3, 0}, {snapshots, 4, 0},
}

// Draw makes the plan of a seed: each seed draws which faults there are, how often, and how bad network, disks and clocks are at
// the best of times. What is drawn is how much comes about in a run, so that a long one has quiet times, in which what takes long has its turn.
func Draw(seed uint64, length time.Duration) Plan {
	r := rand.New(rand.NewPCG(seed, 0x51b0))
	p := Plan{Seed: seed, Nodes: 3, Millis: length.Milliseconds()}
	if r.IntN(4) == 0 {
		p.Nodes = 5
	}
	all := slices.Concat(workload.Modes, workload.Changes)
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	p.Kinds = slices.Clone(all[:2])
	p.PaceMS = p.share(200, 10_000, []int64{300, 150, 60}[r.IntN(3)])
	p.WaitMS = p.share(300, 5000, []int64{400, 120}[r.IntN(2)])
	p.CalmMS = []int64{500, 1000, 2000}[r.IntN(3)]
	p.Raft = []int64{250, 500, 1000, 1000, 2000, 2000}[r.IntN(6)]
	p.Snap = int64(8+r.IntN(56)) << 10
	p.Minor = r.IntN(2) == 0
	p.Writes = []int64{200, 1000, 5000, 20_000}[r.IntN(4)]
	p.Net = Rates{Least: 50 + r.Int64N(500)}
	p.Net.Most = p.Net.Least + []int64{200, 2000, 15000}[r.IntN(3)]
	if r.IntN(2) == 0 {
		p.Net.Loss, p.Net.Twice = r.Int64N(200), r.Int64N(300)
	}
	if r.IntN(2) == 0 {
		p.Net.Late, p.Net.Spike = r.Int64N(200), 1+r.Int64N(200)
	}
	for range p.Nodes {
		p.Gapless = append(p.Gapless, r.IntN(2) == 0)
		p.Clocks = append(p.Clocks, Tick{OffsetMS: r.Int64N(120_000) - 60_000, PPM: r.Int64N(20_000) - 10_000})
	}
	p.Faults = drawFaults(r, &p)
	p.Keys = []int64{0, 20, 60}[r.IntN(3)]
	p.Batch = []int{8, 8, 0, 0}[r.IntN(4)] // raft's pipeline sends one request for each entry that is made: who is behind must gain by each
	p.Pipe = []int{1, 2, 0, 0}[r.IntN(4)]
	p.NoCache = r.IntN(3) == 0
	return p
}

// share is the time between two of what is to come about n times in a run, in ms and within bounds.
func (p *Plan) share(least, most, n int64) int64 { return min(max(p.Millis/n, least), most) }

// drawFaults draws a swarm: each kind is in it or not, so that those that are have their turn undisturbed by the others.
func drawFaults(r *rand.Rand, p *Plan) (out []Fault) {
	var bag []int
	for i, k := range kinds {
		if r.IntN(5) < 2 {
			continue
		}
		for range k.weight {
			bag = append(bag, i)
		}
	}
	if len(bag) == 0 || r.IntN(20) == 0 {
		return nil // a run without faults is a test too
	}
	every := p.share(300, 60_000, []int64{300, 120, 60, 24}[r.IntN(4)])
	leader := r.IntN(4) // how often, in 4, it is the leader
	for at := 500 + r.Int64N(every); at < p.Millis; at += every/8 + r.Int64N(2*every) {
		k := kinds[bag[r.IntN(len(bag))]]
		f := Fault{At: at, What: k.what, Node: r.IntN(p.Nodes)}
		if r.IntN(4) < leader {
			f.Node = -1
		}
		if k.most > 0 {
			f.For = 50 + r.Int64N(k.most)
		}
		switch k.what {
		case halves, bridge:
			f.Arg = 1 + r.Int64N(1<<p.Nodes-2)
		case jump:
			f.Arg = []int64{1000, 10_000, 600_000}[r.IntN(3)]
			f.Arg = r.Int64N(2*f.Arg) - f.Arg
		case rate:
			f.Arg = r.Int64N(20_000) - 10_000
		default:
			f.Arg = r.Int64N(1 << 20)
		}
		out = append(out, f)
	}
	return out
}

// Check names the first thing that is wrong with a plan that was read from a file.
func (p *Plan) Check() error {
	switch {
	case p.Nodes != 3 && p.Nodes != 5:
		return fmt.Errorf("plan: nodes is %d, want 3 or 5", p.Nodes)
	case p.Millis < 1000 || p.Millis > 3_600_000:
		return fmt.Errorf("plan: millis is %d, want 1,000 to 3,600,000", p.Millis)
	case len(p.Gapless) != p.Nodes || len(p.Clocks) != p.Nodes:
		return fmt.Errorf("plan: gapless has %d and clocks %d members, want one for each of %d nodes", len(p.Gapless), len(p.Clocks), p.Nodes)
	case p.PaceMS < 1 || p.WaitMS < 1 || p.WaitMS > 5000 || p.CalmMS < 1 || p.CalmMS > 5000:
		return fmt.Errorf("plan: pace_ms is %d, want 1 or more; wait_ms %d, want 1 to 5,000; calm_ms %d, want 1 to 5,000", p.PaceMS, p.WaitMS, p.CalmMS)
	case p.Raft < 50 || p.Snap < 1024 || p.Writes < 1 || p.Net.Least < 0 || p.Net.Most < p.Net.Least:
		return fmt.Errorf("plan: raft_ms, snap, write_us or net is out of range: %d, %d, %d, %+v", p.Raft, p.Snap, p.Writes, p.Net)
	}
	if p.Keys < 0 || p.Keys > 1000 {
		return fmt.Errorf("plan: keys is %d, want 0 to 1,000", p.Keys)
	}
	all := slices.Concat(workload.Modes, workload.Changes)
	if len(p.Kinds) == 0 || len(p.Kinds) > len(all) {
		return fmt.Errorf("plan: %d kinds, want 1 to %d", len(p.Kinds), len(all))
	}
	for _, k := range p.Kinds {
		if !slices.Contains(all, k) {
			return fmt.Errorf("plan: there is no kind %q, want some of %q", k, all)
		}
	}
	for i, f := range p.Faults {
		if f.Node < -1 || f.Node >= p.Nodes || f.For < 0 || f.At < 0 || f.At > p.Millis {
			return fmt.Errorf("plan: fault %d is %+v: node, at or for is out of range", i, f)
		}
		if !slices.ContainsFunc(kinds, func(k struct {
			what   string
			weight int
			most   int64
		}) bool {
			return k.what == f.What
		}) {
			return fmt.Errorf("plan: fault %d: there is no %q", i, f.What)
		}
	}
	return nil
}

// ParsePlan reads a plan as JSON.
func ParsePlan(b []byte) (p Plan, err error) {
	if err := json.Unmarshal(b, &p); err != nil {
		return p, fmt.Errorf("plan: %w", err)
	}
	return p, p.Check()
}
