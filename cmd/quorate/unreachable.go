package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/quorate/quorate/client"
)

// answers are what a client heard where it asked for the leader.
type answers struct {
	refused []string // addresses at which nothing listens
	silent  []string // and that did not answer in time
	others  []string // what else there was, in whole
	nodes   bool     // a node answered that does not lead
}

// heard takes apart why a client has no connection.
func heard(err error) (a answers) {
	if err == nil {
		return a
	}
	all := []error{err}
	if many, ok := err.(interface{ Unwrap() []error }); ok { // the join itself, not one in it
		all = many.Unwrap()
	}
	add := func(to *[]string, s string) {
		if !slices.Contains(*to, s) {
			*to = append(*to, s)
		}
	}
	for _, err := range all {
		var op *net.OpError
		var name *net.DNSError
		switch addressed := errors.As(err, &op) && op.Addr != nil; {
		case errors.As(err, &name) && name.IsNotFound:
			add(&a.others, fmt.Sprintf("there is no host %q", name.Name))
		case addressed && errors.Is(err, syscall.ECONNREFUSED):
			add(&a.refused, op.Addr.String())
		case addressed && (op.Timeout() || errors.Is(err, net.ErrClosed)): // closed by this side, which waited no longer
			add(&a.silent, op.Addr.String())
		case strings.Contains(err.Error(), "bad handshake"), strings.Contains(err.Error(), "malformed HTTP"):
			add(&a.others, err.Error()+" (is it the client address of a node?)")
		default:
			a.nodes = a.nodes || strings.HasSuffix(err.Error(), "does not lead")
			add(&a.others, err.Error())
		}
	}
	slices.Sort(a.refused) // they are asked in an order drawn anew each time
	slices.Sort(a.silent)
	return a
}

// text is all of it in one line, the same answers of several addresses together; "" if nothing was heard.
func (a answers) text() string {
	var said []string
	if len(a.refused) > 0 {
		said = append(said, "nothing listens at "+strings.Join(a.refused, ", "))
	}
	if len(a.silent) > 0 {
		said = append(said, "no answer from "+strings.Join(a.silent, ", "))
	}
	return strings.Join(append(said, a.others...), "; ")
}

// advice is what to do about it.
func (a answers) advice() string {
	if a.nodes {
		return "a majority of the cluster's nodes must run and reach each other; /readyz of each says what it lacks"
	}
	return "start a node there (quorate dev, quorate serve), or name the client addresses of others with --addr or QUORATE_ADDR"
}

// unreachable is the end of a command that found no leader: where it looked, for how long, what it heard, and what to do.
func (c *cli) unreachable() error {
	a := heard(c.wait.last())
	why := a.text()
	if why != "" {
		why = ": " + why
	}
	return fmt.Errorf("no leader was found at %s within %s%s; %s", c.addr, c.timeout, why, a.advice())
}

// plain says in this program's words what the client's say of a leader that went away, or of an answer that did not come, once.
func (c *cli) plain(err error) error {
	var x *exitError
	if !errors.As(err, &x) || x.quiet || errors.Is(err, context.Canceled) {
		return err
	}
	var e *client.Error
	unknown := errors.As(x.err, &e) && e.Unknown
	text := x.err.Error()
	switch {
	case errors.Is(x.err, client.ErrUnavailable) && unknown:
		before, _, _ := strings.Cut(text, e.Error())
		text = fmt.Sprintf("%sthere was no answer within %s, and whether it was done is not known: %v", before, c.timeout, c.unreachable())
	case errors.Is(x.err, client.ErrUnavailable):
		before, _, _ := strings.Cut(text, client.ErrUnavailable.Error())
		text = before + c.unreachable().Error()
	case unknown && errors.Is(x.err, context.DeadlineExceeded):
		before, _, _ := strings.Cut(text, e.Error())
		text = fmt.Sprintf("%sthere was no answer within %s, and whether it was done is not known", before, c.timeout)
	default:
		return err
	}
	return &exitError{code: x.code, err: &worded{text, x.err}}
}

// words is what plain makes of an error that one of many operations had.
func (c *cli) words(err error) string { return c.plain(failed(err)).Error() }

// worded is an error in other words.
type worded struct {
	text string
	err  error
}

func (w *worded) Error() string { return w.text }
func (w *worded) Unwrap() error { return w.err }
