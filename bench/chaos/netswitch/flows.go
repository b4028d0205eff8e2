//go:build linux

package netswitch

import (
	"cmp"
	"slices"
	"sync"
)

// flowsMost bounds the table; a quarter, whoever has been silent for longest, is forgotten when it is full.
const flowsMost = 8192

// half is what one end of a connection has said.
type half struct {
	next   uint32 // the sequence number that follows all it has sent
	ack    uint32 // the one it waits for; 0 before it has heard of the other end
	over   bool   // it has said that nothing follows
	doomed bool   // the connection is to end
	seen   uint64 // number of its last segment
}

// flows are the TCP connections that have been seen, a half for each end.
type flows struct {
	mu    sync.Mutex
	clock uint64         // guarded by mu: segments so far
	half  map[flow]*half // guarded by mu
}

// pass notes a packet. Where it must not pass, since its connection is to end, answer is a reset for its sender, nil for one that has ended it
// itself.
func (f *flows) pass(packet []byte) (pass bool, answer []byte) {
	s, ok := parseTCP(packet)
	if !ok {
		return true, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.clock++
	if s.flags&(flagSYN|flagACK) == flagSYN { // a new connection, perhaps between ports that had one
		delete(f.half, s.flow)
		delete(f.half, s.back())
	}
	h := f.half[s.flow]
	if s.flags&flagRST != 0 {
		delete(f.half, s.flow)
		if h != nil && h.doomed {
			return false, nil
		}
		return true, nil
	}
	if h == nil {
		f.makeRoom()
		h = &half{next: s.next}
		if o := f.half[s.back()]; o != nil {
			h.doomed = o.doomed
		}
		f.half[s.flow] = h
	}
	h.seen = f.clock
	if int32(s.next-h.next) > 0 { // what is sent again is behind
		h.next = s.next
	}
	h.over = h.over || s.flags&flagFIN != 0
	if s.flags&flagACK != 0 && (h.ack == 0 || int32(s.ack-h.ack) > 0) {
		h.ack = s.ack
	}
	if h.doomed {
		return false, resetPacket(s.flow, h.ack, h.next)
	}
	return true, nil
}

// makeRoom forgets the oldest where the table is full; mu is held.
func (f *flows) makeRoom() {
	if f.half == nil {
		f.half = map[flow]*half{}
	}
	if len(f.half) < flowsMost {
		return
	}
	all := make([]flow, 0, len(f.half))
	for k := range f.half {
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b flow) int { return cmp.Compare(f.half[a].seen, f.half[b].seen) })
	for _, k := range all[:flowsMost/4] {
		delete(f.half, k)
	}
}

// doom ends the connections of an address, and returns a reset for each of their ends. Those that both ends have ended are forgotten.
func (f *flows) doom(a addr) (resets [][]byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for k, h := range f.half {
		if k.from != a && k.to != a || h.doomed {
			continue
		}
		if o := f.half[k.back()]; h.over && (o == nil || o.over) {
			delete(f.half, k)
			continue
		}
		h.doomed = true
		resets = append(resets, resetPacket(k, h.ack, h.next))
	}
	return resets
}
