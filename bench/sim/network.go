package sim

import (
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// edge is one direction between two hosts.
type edge struct{ from, to string }

// network is all that hosts have between them: streams for clients (conn.go), messages for raft (post.go).
type network struct {
	dice  *dice
	trace *trace

	mu        sync.Mutex
	cuts      map[edge]int // how many faults stand in the way
	rates     Rates
	storms    int
	changed   chan struct{} // closed and replaced when cuts change
	listeners map[string]*listener
	conns     []*conn // open, in the order they were made
	posts     map[raft.ServerAddress]*post
	ports     int
	garbled   map[string]func(*process, *raft.AppendEntriesRequest) bool // by host: what is done to the next message with entries
	counts    map[string]int
}

// stormy is what a network is at its worst.
var stormy = Rates{Loss: 2000, Twice: 1500, Late: 3000, Least: 500, Most: 60_000, Spike: 600}

func newNetwork(d *dice, tr *trace, r Rates) *network {
	return &network{
		dice: d, trace: tr, rates: r, cuts: map[edge]int{}, changed: make(chan struct{}), listeners: map[string]*listener{},
		posts: map[raft.ServerAddress]*post{}, garbled: map[string]func(*process, *raft.AppendEntriesRequest) bool{}, counts: map[string]int{},
	}
}

// now are the rates in force. mu is held.
func (n *network) now() Rates {
	if n.storms > 0 {
		return stormy
	}
	return n.rates
}

func (n *network) delay(edge) time.Duration {
	n.mu.Lock()
	r := n.now()
	n.mu.Unlock()
	d := time.Duration(r.Least+n.dice.upTo(r.Most-r.Least)) * time.Microsecond
	if r.Late > 0 && n.dice.upTo(10_000) < r.Late {
		d += time.Duration(n.dice.upTo(r.Spike*1000)) * time.Microsecond
	}
	return d
}

func (n *network) lost() bool {
	n.mu.Lock()
	r := n.now()
	n.mu.Unlock()
	return r.Loss > 0 && n.dice.upTo(10_000) < r.Loss
}

func (n *network) twice() bool {
	n.mu.Lock()
	r := n.now()
	n.mu.Unlock()
	return r.Twice > 0 && n.dice.upTo(10_000) < r.Twice
}

// storm makes the whole network bad until the returned function is called.
func (n *network) storm() (heal func()) {
	n.mu.Lock()
	n.storms++
	n.mu.Unlock()
	return func() {
		n.mu.Lock()
		n.storms--
		n.mu.Unlock()
	}
}

// calm leaves the network with nothing but a short delay.
func (n *network) calm() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rates = Rates{Least: 100, Most: 1000}
	clear(n.garbled)
}

// block cuts edges until the returned function is called.
func (n *network) block(es ...edge) (heal func()) {
	n.mu.Lock()
	for _, e := range es {
		n.cuts[e]++
	}
	n.shifted()
	n.mu.Unlock()
	return sync.OnceFunc(func() {
		n.mu.Lock()
		for _, e := range es {
			if n.cuts[e]--; n.cuts[e] == 0 {
				delete(n.cuts, e)
			}
		}
		n.shifted()
		n.mu.Unlock()
	})
}

// shifted tells who waits that the topology is another one. mu is held.
func (n *network) shifted() {
	close(n.changed)
	n.changed = make(chan struct{})
}

func (n *network) topology() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.changed
}

func (n *network) cut(e edge) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cuts[e] > 0
}

// parted says whether anything is cut.
func (n *network) parted() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.cuts) > 0
}

func (n *network) count(what string) {
	n.mu.Lock()
	n.counts[what]++
	n.mu.Unlock()
}

func (n *network) listen(addr string) *listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := &listener{n: n, addr: address(addr), in: make(chan *conn, 64), done: make(chan struct{})}
	n.listeners[addr] = l
	return l
}

func (n *network) listening(addr string) *listener {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.listeners[addr]
}

func (n *network) unlisten(l *listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.listeners[l.addr.String()] == l {
		delete(n.listeners, l.addr.String())
	}
}

func (n *network) port(host string) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ports++
	return fmt.Sprintf("%s:%d", host, 10_000+n.ports%50_000)
}

func (n *network) remember(cs ...*conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.conns = append(n.conns, cs...)
}

func (n *network) forget(c *conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, one := range n.conns {
		if one == c {
			n.conns = append(n.conns[:i:i], n.conns[i+1:]...)
			return
		}
	}
}

// down ends all connections of a host whose process has died; told: the other ends hear of it.
func (n *network) down(host string, told bool) {
	n.mu.Lock()
	var dead []*conn
	for _, c := range n.conns {
		if h, _, err := net.SplitHostPort(c.local.String()); err == nil && h == host {
			dead = append(dead, c)
		}
	}
	n.mu.Unlock()
	for _, c := range dead {
		c.die(told)
	}
}

func (n *network) post(a raft.ServerAddress) *post {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.posts[a]
}

// garble has f see the messages with entries that arrive at a host, until it returns true.
func (n *network) garble(host string, f func(*process, *raft.AppendEntriesRequest) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.garbled[host] = f
}

// arrived lets a message to a process be damaged.
func (n *network) arrived(p *process, m *raft.AppendEntriesRequest) {
	n.mu.Lock()
	f := n.garbled[p.n.host]
	n.mu.Unlock()
	if f != nil && f(p, m) {
		n.mu.Lock()
		delete(n.garbled, p.n.host)
		n.mu.Unlock()
	}
}

// carry brings a message to another host, unless it is lost: late, perhaps twice, and not in order. One in eight of those that are lost comes
// many seconds later, when whoever sent it has long sent others: from a connection that he had given up.
func (n *network) carry(e edge, what byte, size int, arrive func()) {
	comes := func() {
		n.trace.message(e, what, size)
		arrive()
	}
	lose := func() {
		n.count("messages lost")
		if n.dice.upTo(8) > 0 {
			return
		}
		time.AfterFunc(time.Duration(1+n.dice.upTo(15_000))*time.Millisecond, func() {
			if !n.cut(e) {
				n.count("messages seconds late")
				comes()
			}
		})
	}
	if n.cut(e) || n.lost() {
		lose()
		return
	}
	times := 1
	if n.twice() {
		times = 2
		n.count("messages twice")
	}
	for range times {
		time.AfterFunc(n.delay(e), func() {
			if n.cut(e) {
				lose()
				return
			}
			comes()
		})
	}
}
