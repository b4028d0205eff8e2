package history

import (
	"container/heap"

	"github.com/quorate/quorate/fsm"
)

// state is where a message stands.
type state uint8

const (
	scheduled state = iota
	ready
	leased
	retrying
	done
	dead
	cancelled
	purged
)

func (s state) String() string {
	return [...]string{"scheduled", "ready", "leased", "retrying", "done", "dead", "cancelled", "purged"}[s]
}

// ending is how a message's last lease ended.
type ending uint8

const (
	running ending = iota // it has not, or there was none
	byExpiry
	byNack
	byRelease
)

// message is a message by the contract's rules, as the log moves it.
type message struct {
	id       string
	q        *queue
	lane     *lane // nil: it waits for nobody
	priority int
	body     string // as it is
	sent     string // as it was enqueued
	created  uint64 // index
	since    int64  // T of its enqueue
	by       request
	parent   string // token of the ack that enqueued it

	state    state
	gen      uint32 // raised by each change of state: what heaps hold of earlier ones is void
	place    uint64
	due      int64 // T; scheduled and retrying
	expires  int64 // T; 0: never
	timeout  int64
	ttl      int64
	key      string
	retry    fsm.RetryPolicy
	own      *fsm.RetryPolicy // that it came with, nil for the queue's
	keys     []string         // of the KV, that get its body if it dies
	replaced bool             // its body was, once at least
	attempts int              // that cost one
	free     int              // free returns in a row

	token    string // the last
	void     bool   // whose body was replaced since it ended
	deadline int64  // of the lease, in lease time
	cutoff   int64  // the attempt's, in lease time; 0: none
	length   int64  // of the lease, ms; 0: it was extended
	end      ending
	nackDead bool
	nackDue  int64
	out      bool // cancelled, and the lease goes on

	result    string // of the task; "": none
	hasResult bool
	resultAt  uint64 // index
	pushed    bool   // the result came without a lease
	told      bool   // an ack was told of a pushed result
	doneBy    string
	taken     bool // done when it was handed over, at most once
	endIndex  uint64
	endTime   int64
	reason    string
	lastWord  string // error of the last failed attempt, where the contract fixes it

	batch    *batch // of which it is an open member
	callback *batch // whose callback it is
	redrives int
	next     *message // what it was made into when it was requeued
	gone     uint64   // index where a dead letter was requeued or deleted, or what waited was purged
	dropped  uint64   // index where its queue was deleted
	moved    *message // what a dead letter is in its dead-letter queue
	letter   *message // the dead letter that this one is
	most     int      // attempts that it died of, where they were spent

	eligible int64 // T from which a worker could have had it
	leases   int
	seen     int // deliveries that clients saw
}

func (m *message) ended() bool { return m.state >= done }

// taskHasResult says whether the task whose message this is has a result: a moved dead letter's task is that of the one that died.
func (m *message) taskHasResult() bool { return m.hasResult || m.letter != nil && m.letter.hasResult }

// queue is a queue by the contract's rules.
type queue struct {
	mapping uint64 // generation of its mapping; 0: it has none
	name    string
	opt     Options
	ready   waiting          // without a key, or where keys have no rate
	flows   map[string]*flow // by key, where keys have a rate
	lanes   map[string]*lane
	dedup   map[string]first
	dead    map[*message]bool // its dead letters
	live    map[*message]bool
	all     []*message

	leasedAt int64 // T of the last lease
	pace     pace
}

// first is the first enqueue under a dedup key.
type first struct {
	id, content string
	time        int64
}

// lane is an ordered group: its messages by place, the ended ones among them still there until they come to the head.
type lane struct {
	members []*message
	head    int
}

// holder is the one that can go out, is out, or waits for its retry.
func (l *lane) holder() *message {
	for l.head < len(l.members) {
		if m := l.members[l.head]; !m.ended() || m.out {
			return m
		}
		l.members[l.head] = nil
		l.head++
	}
	l.members, l.head = l.members[:0], 0
	return nil
}

// lane is the group that a message of a key belongs to, nil for none.
func (q *queue) lane(key string) *lane {
	switch {
	case q.opt.Mode == "fifo":
		key = ""
	case q.opt.Mode != "per_key" || key == "":
		return nil
	}
	l := q.lanes[key]
	if l == nil {
		l = new(lane)
		q.lanes[key] = l
	}
	return l
}

// waiting is ready messages by priority.
type waiting [10]placeHeap

// first is the message that goes first, nil where there is none.
func (w *waiting) first() *message {
	for p := len(w) - 1; p >= 0; p-- {
		h := &w[p]
		for len(*h) > 0 {
			if e := (*h)[0]; e.m.state == ready && e.m.gen == e.gen {
				return e.m
			}
			heap.Pop(h)
		}
	}
	return nil
}

// placed is a message at the place that it had when it was put there.
type placed struct {
	place uint64
	m     *message
	gen   uint32
}

// placeHeap is ready messages by place.
type placeHeap []placed

func (h placeHeap) Len() int           { return len(h) }
func (h placeHeap) Less(i, j int) bool { return h[i].place < h[j].place }
func (h placeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *placeHeap) Push(x any)        { *h = append(*h, x.(placed)) }
func (h *placeHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// moveKind orders due moves of one time.
type moveKind uint8

const (
	moveDelay moveKind = iota
	moveRetry
	moveLease
	moveTTL
)

type move struct {
	at   int64
	kind moveKind
	m    *message
	gen  uint32
}

func (a *move) before(b *move) bool {
	if a.at != b.at {
		return a.at < b.at
	}
	if a.kind != b.kind {
		return a.kind < b.kind
	}
	return a.m.id < b.m.id
}

// moveHeap is what time will do, by (due, kind, id).
type moveHeap []move

func (h moveHeap) Len() int           { return len(h) }
func (h moveHeap) Less(i, j int) bool { return h[i].before(&h[j]) }
func (h moveHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *moveHeap) Push(x any)        { *h = append(*h, x.(move)) }
func (h *moveHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// top is the first move that still stands, nil without one.
func (h *moveHeap) top() *move {
	for len(*h) > 0 {
		if t := &(*h)[0]; t.gen == t.m.gen {
			return t
		}
		heap.Pop(h)
	}
	return nil
}
