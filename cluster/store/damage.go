package store

import (
	"cmp"
	"fmt"
	"strings"
)

// DamageError says that a file does not hold what was written to it. A node that finds one stops (semantics G16): what it
// would serve, replicate or vote on can no longer be trusted, and the other members still have everything.
type DamageError struct {
	File  string // path of the file, as the node was configured
	Index uint64 // log index, 0 where it has none
	What  string // what is wrong, lower case
	Err   error  // cause, may be nil
	Cure  string // what to do about it; "": what is right for a damaged file
}

// What an operator does about damage.
const (
	cureFile = "keep a copy, run `quorate cluster remove` for this node on another one, empty its data directory and start it again, and it joins as a new member"
	cureWay  = "none of it was stored, so start this node again; if that comes again, start the leader again and test the memory of both machines"
)

func (e *DamageError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s is damaged", e.File)
	if e.Index != 0 {
		fmt.Fprintf(&b, " at log index %d", e.Index)
	}
	b.WriteString(": ")
	b.WriteString(e.What)
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	b.WriteString("; ")
	b.WriteString(cmp.Or(e.Cure, cureFile))
	return b.String()
}

func (e *DamageError) Unwrap() error { return e.Err }
