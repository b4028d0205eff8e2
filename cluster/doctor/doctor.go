// Package doctor looks at what a node needs before and while it runs: configuration, data directory, disk, ports, clock and
// peers. Every finding says what is the matter and what to do; nothing is changed, but for a file that is written into the
// data directory to time the disk and removed again.
//
// Decisions
//
//   - 2026-11: a data directory that a process holds means that the node runs, so that its ports being taken is right.
//   - 2026-11: peers are asked as a stranger (cluster.Probe), since the doctor must not speak under the identity of a node
//     that may be running.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/cluster/store"
)

// Level is how bad a finding is.
type Level string

// Levels, from good to bad.
const (
	OK   Level = "ok"
	Warn Level = "warn" // it works, not well
	Bad  Level = "bad"  // it does not work, or will not
)

// Finding is one thing looked at.
type Finding struct {
	Check string `json:"check"` // config, data_dir, identity, disk, space, ports, clock, peers
	Level Level  `json:"level"`
	What  string `json:"what"`
	Do    string `json:"do,omitempty"` // what to do; "" where nothing is
}

const (
	syncs      = 40
	syncBytes  = 4096
	slowSync   = 5 * time.Millisecond
	badSync    = 50 * time.Millisecond
	tooFast    = 20 * time.Microsecond
	lowSpace   = 1 << 30
	slowClock  = time.Second
	badClock   = 10 * time.Second
	maxPeers   = 64
	dialWithin = 2 * time.Second
)

// earliest is before this software was: a clock that shows less is not set.
var earliest = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// Worst is the worst level of the findings.
func Worst(fs []Finding) Level {
	worst := OK
	for _, f := range fs {
		if f.Level == Bad || f.Level == Warn && worst == OK {
			worst = f.Level
		}
	}
	return worst
}

type doctor struct {
	cfg      cluster.Config
	now      func() time.Time
	findings []Finding
}

func (d *doctor) say(check string, level Level, do, format string, args ...any) {
	d.findings = append(d.findings, Finding{Check: check, Level: level, What: fmt.Sprintf(format, args...), Do: do})
}

// Examine looks at everything. It takes a few seconds at most, less when ctx ends.
func Examine(ctx context.Context, cfg cluster.Config) []Finding {
	d := &doctor{cfg: cfg, now: time.Now}
	if err := cfg.Validate(); err != nil {
		d.say("config", Bad, "correct it", "%v", err)
		return d.findings
	}
	d.say("config", OK, "", "node %s", cfg.NodeID)
	if cfg.DataDir == "" {
		d.say("data_dir", Warn, "set data_dir for anything that must be kept", "the node runs in memory: what it holds is lost when it stops")
		d.clock("")
		return d.findings
	}
	running := d.dataDir()
	d.disk()
	d.ports(running)
	d.clock(cfg.DataDir)
	d.peers(ctx)
	return d.findings
}

// dataDir checks the directory and the identity in it, and says whether the node runs.
func (d *doctor) dataDir() bool {
	dir := d.cfg.DataDir
	st, err := os.Lstat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		d.say("data_dir", OK, "", "%s does not exist yet: the first start makes it", dir)
		d.logStore(store.Inspection{})
		return false
	case err != nil:
		d.say("data_dir", Bad, "make it readable for the user that runs the node", "%v", err)
		return false
	case st.Mode()&os.ModeSymlink != 0:
		d.say("data_dir", Bad, "name the directory itself", "%s is a symbolic link", dir)
		return false
	case !st.IsDir():
		d.say("data_dir", Bad, "name a directory", "%s is not a directory", dir)
		return false
	case st.Mode().Perm()&0o077 != 0:
		d.say("data_dir", Bad, "chmod 700 "+dir, "%s can be read by others (mode %04o)", dir, st.Mode().Perm())
	default:
		d.say("data_dir", OK, "", "%s, mode %04o", dir, st.Mode().Perm())
	}
	in, err := store.Inspect(dir)
	id := in.Identity
	switch {
	case err != nil:
		d.say("identity", Bad, "", "%v", err)
	case id.UUID.IsZero():
		d.say("identity", OK, "", "none yet: the first start makes one")
	case id.Label != d.cfg.NodeID:
		d.say("identity", Bad, fmt.Sprintf("start it with node_id = %q, or give it another data_dir", id.Label), "the data belongs to node %q, not %q", id.Label, d.cfg.NodeID)
	case id.Removed:
		d.say("identity", Bad, "empty "+dir+" and start the node again: it joins as a new member", "cluster %s has removed this node", id.Cluster)
	case id.Cluster.IsZero():
		d.say("identity", OK, "", "node %s, of no cluster yet, running: %v", id.UUID, in.InUse)
	default:
		d.say("identity", OK, "", "node %s of cluster %s, %d starts, running: %v", id.UUID, id.Cluster, id.Incarnation, in.InUse)
	}
	if err == nil || in.Identity.HasData {
		d.logStore(in)
	}
	return in.InUse
}

// logStore says which log store the directory has, and whether it is the one that is asked for.
func (d *doctor) logStore(in store.Inspection) {
	dir, told := d.cfg.DataDir, store.Kind(d.cfg.LogStore)
	if in.Identity.UUID.IsZero() || !in.Identity.HasData {
		if told == "" {
			told = store.DefaultKind
		}
		d.say("log_store", OK, "", "%s, once there is a log", told)
		return
	}
	have := in.Identity.Kind()
	if told != "" && told != have && !in.Identity.Cluster.IsZero() {
		d.say("log_store", Bad, fmt.Sprintf("stop the node and run `quorate log convert --data-dir %s --to %s`, or set raft.log_store to %q", dir, told, have),
			"the log is a %q one, raft.log_store is %q: the node will not start", have, told)
		return
	}
	d.say("log_store", OK, "", "%s, %d MiB", have, in.LogBytes>>20)
}

// disk times durable writes where the log is, or will be.
func (d *doctor) disk() {
	dir := d.cfg.DataDir
	for {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			break
		}
		dir = up
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		d.say("space", Warn, "", "free space of %s: %v", dir, err)
	} else {
		free := int64(fs.Bavail) * fs.Bsize
		what := fmt.Sprintf("%d MiB free at %s", free>>20, dir)
		want := d.cfg.SpaceWanted(int64(fs.Blocks) * fs.Bsize)
		switch {
		case free < want:
			d.say("space", Bad, "make room, or lower limits.disk_free_bytes: the log alone takes some hundred MiB", "%s, less than the %d MiB below which enqueues are refused", what, want>>20)
		case free < lowSpace:
			d.say("space", Warn, "make room: log and snapshots take some GiB when there is a backlog", "%s", what)
		default:
			d.say("space", OK, "", "%s", what)
		}
	}
	took, err := timeSyncs(dir)
	if err != nil {
		d.say("disk", Bad, "make the directory writable for the user that runs the node", "%v", err)
		return
	}
	slices.Sort(took)
	p50, p99 := took[len(took)/2], took[len(took)*99/100]
	what := fmt.Sprintf("%d writes of %d B with fsync: median %v, slowest %v", len(took), syncBytes, p50.Round(time.Microsecond), p99.Round(time.Microsecond))
	switch {
	case p50 > badSync:
		d.say("disk", Bad, "use a faster disk: every confirmation waits for one such write on two nodes", "%s", what)
	case p50 > slowSync:
		d.say("disk", Warn, "expect every confirmation to take twice that", "%s", what)
	case p50 < tooFast:
		d.say("disk", Warn, "make sure that the disk really writes: on a memory file system, or behind a volatile cache, confirmed work does not survive a power cut", "%s: too fast to be true", what)
	default:
		d.say("disk", OK, "", "%s", what)
	}
}

func timeSyncs(dir string) ([]time.Duration, error) {
	f, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.Remove(f.Name()) }()
	defer f.Close()
	b := make([]byte, syncBytes)
	took := make([]time.Duration, 0, syncs)
	for i := range syncs {
		start := time.Now()
		if _, err := f.WriteAt(b, int64(i)*syncBytes); err != nil {
			return nil, err
		}
		if err := f.Sync(); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}

// ports checks that the node's ports are free, or taken by the node.
func (d *doctor) ports(running bool) {
	for _, p := range []struct{ name, network, addr string }{
		{"raft", "tcp", d.cfg.RaftAddr}, {"gossip", "tcp", d.cfg.GossipAddr}, {"gossip", "udp", d.cfg.GossipAddr}, {"client", "tcp", d.cfg.ClientAddr},
	} {
		if p.addr == "" {
			continue
		}
		err := tryPort(p.network, p.addr)
		switch {
		case err == nil && running:
			d.say("ports", Warn, "restart the node if its configuration has changed", "the node runs, but nothing listens on its %s address %s (%s)", p.name, p.addr, p.network)
		case err == nil:
			d.say("ports", OK, "", "%s address %s (%s) is free", p.name, p.addr, p.network)
		case errors.Is(err, unix.EADDRINUSE) && running:
			d.say("ports", OK, "", "%s address %s (%s) is in use, by this node as it seems", p.name, p.addr, p.network)
		case errors.Is(err, unix.EADDRINUSE):
			d.say("ports", Bad, "stop what uses it, or choose another", "%s address %s (%s) is in use by another process", p.name, p.addr, p.network)
		default:
			d.say("ports", Bad, "use an address of this machine and a port that this user may open", "%s address: %v", p.name, err)
		}
	}
}

func tryPort(network, addr string) error {
	if network == "udp" {
		c, err := net.ListenPacket(network, addr)
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	l, err := net.Listen(network, addr)
	if err == nil {
		_ = l.Close()
	}
	return err
}

// clock checks that the wall clock is set and has not gone back since the node last wrote.
func (d *doctor) clock(dir string) {
	now := d.now()
	if now.Before(earliest) {
		d.say("clock", Bad, "set it, and keep it set (NTP)", "the clock shows %s", now.UTC().Format(time.RFC3339))
		return
	}
	if dir != "" {
		if st, err := os.Stat(filepath.Join(dir, "identity.json")); err == nil && st.ModTime().After(now.Add(time.Minute)) {
			d.say("clock", Warn, "set it, and keep it set (NTP)", "the clock shows %s, the node's last start was at %s", now.UTC().Format(time.RFC3339), st.ModTime().UTC().Format(time.RFC3339))
			return
		}
	}
	d.say("clock", OK, "", "%s", now.UTC().Format(time.RFC3339))
}

// peers asks the known peers how they are, and tries the addresses to join.
func (d *doctor) peers(ctx context.Context) {
	known, err := cluster.KnownPeers(d.cfg.DataDir)
	if err != nil {
		d.say("peers", Warn, "nothing: the node finds its peers by gossip and writes the file anew", "%v", err)
	}
	if len(known) == 0 && len(d.cfg.Join) == 0 {
		d.say("peers", OK, "", "none are known, and none to join")
	}
	for _, k := range known[:min(len(known), maxPeers)] {
		before := d.now()
		p, err := cluster.Probe(ctx, k.Raft)
		took := d.now().Sub(before)
		if err != nil {
			d.say("peers", Warn, "see whether it runs, and whether a firewall stands between", "node %s at %s: %v", k.Label, k.Raft, err)
			continue
		}
		offset := time.UnixMilli(p.WallMillis).Sub(before.Add(took / 2))
		what := fmt.Sprintf("node %s at %s: %s, ready: %v, version %s, clock %+d ms from here", p.Label, k.Raft, p.Role, p.Ready, p.Version, offset.Milliseconds())
		switch {
		case p.Format != store.Format:
			d.say("peers", Bad, "run one version everywhere", "%s; its data has format %d, this version's %d", what, p.Format, store.Format)
		case offset.Abs() > badClock:
			d.say("peers", Bad, "set the clocks, and keep them set (NTP): delays and leases follow the leader's", "%s", what)
		case offset.Abs() > slowClock:
			d.say("peers", Warn, "set the clocks, and keep them set (NTP)", "%s", what)
		case !p.Ready:
			d.say("peers", Warn, "look at that node", "%s: %s", what, p.Reason)
		case p.Version != d.cfg.Version && d.cfg.Version != "":
			d.say("peers", Warn, "finish the upgrade", "%s; this is version %s", what, d.cfg.Version)
		default:
			d.say("peers", OK, "", "%s", what)
		}
	}
	for _, a := range d.cfg.Join {
		c, err := (&net.Dialer{Timeout: dialWithin}).DialContext(ctx, "tcp", a)
		if err != nil {
			d.say("peers", Warn, "see whether it runs, and whether a firewall stands between", "gossip address to join: %v", err)
			continue
		}
		_ = c.Close()
		d.say("peers", OK, "", "gossip address %s to join answers", a)
	}
}
