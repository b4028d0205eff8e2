package push

import "time"

// State is how the push of a queue stands on a node.
type State struct {
	Does  Does
	Text  string    // the same in words; "" for Unknown
	Until time.Time // of Resting: when the endpoint is tried again; zero: at any moment
	Why   string    // of Resting: the last failure, or that the endpoint has asked for the rest
}

// Does is what the push of a queue does.
type Does uint8

// What it can do.
const (
	Unknown Does = iota // this node does not lead, or has not looked yet
	Barred              // nothing: Text says what is in the way
	Pushing             // it takes messages, is about to, or is ending to begin anew with other options
	Resting             // nothing until it tries again
)
