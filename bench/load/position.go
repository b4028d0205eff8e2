package load

import (
	"cmp"

	"github.com/quorate/quorate/wire"
)

// position is a place in the log, as ids and lease tokens carry it: an entry's index and a number within the entry. What
// kinds of number are counted within an entry is the broker's own, so only places of one kind compare in full.
type position struct {
	index  uint64
	offset uint32
}

func (p position) compare(q position) int {
	return cmp.Or(cmp.Compare(p.index, q.index), cmp.Compare(p.offset, q.offset))
}

// crockford is the alphabet of ids: a character's place in it is its five bits.
const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

var crockfordBits = func() (t [256]byte) {
	for i := range len(crockford) {
		t[crockford[i]] = byte(i)
	}
	return t
}()

// positionOf reads an id: epoch (16 bits), group (16), index (64) and number in the entry (32). ok is false for what is no id.
func positionOf(id string) (p position, ok bool) {
	if !wire.IsID(id) {
		return position{}, false
	}
	var hi, lo uint64
	for i := range len(id) {
		hi = hi<<5 | lo>>59
		lo = lo<<5 | uint64(crockfordBits[id[i]])
	}
	return position{index: hi<<32 | lo>>32, offset: uint32(lo)}, true
}

// leasePosition is where in the log the lease of a token was made.
func leasePosition(token string) (position, bool) {
	if len(token) != wire.TokenBytes {
		return position{}, false
	}
	return positionOf(token[wire.IDBytes:])
}
