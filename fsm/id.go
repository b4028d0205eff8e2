package fsm

// ID names a message, a lease or a session. It is a place in the log, so it is unique, sortable and drawn from nothing
// random: epoch 16 bits, group 16, log index 64, offset in the entry 32, most significant first.
type ID struct{ Hi, Lo uint64 }

// MakeID composes an ID from its four parts.
func MakeID(epoch, group uint16, index uint64, offset uint32) ID {
	return ID{Hi: uint64(epoch)<<48 | uint64(group)<<32 | index>>32, Lo: index<<32 | uint64(offset)}
}

// Epoch is the life of the cluster in which the ID was made; a restored backup raises it.
func (id ID) Epoch() uint16 { return uint16(id.Hi >> 48) }

// Group is the Raft group whose log the ID is a place in.
func (id ID) Group() uint16 { return uint16(id.Hi >> 32) }

// Index is the log index of the entry that made the ID.
func (id ID) Index() uint64 { return id.Hi<<32 | id.Lo>>32 }

// Offset is the position within the entry.
func (id ID) Offset() uint32 { return uint32(id.Lo) }

// IsZero reports whether the ID is unset. No entry has index 0, so no real ID is zero.
func (id ID) IsZero() bool { return id.Hi == 0 && id.Lo == 0 }

// Compare orders IDs as numbers, which is the order of their text form too: -1, 0 or +1.
func (id ID) Compare(o ID) int {
	switch {
	case id.Hi < o.Hi || id.Hi == o.Hi && id.Lo < o.Lo:
		return -1
	case id == o:
		return 0
	}
	return 1
}

// Token is a worker's proof that it holds a lease: which message, and which lease of it. Lease positions rise with
// every lease of a message, so a later token of a message is always the greater one (a fencing token).
type Token struct{ Message, Lease ID }
