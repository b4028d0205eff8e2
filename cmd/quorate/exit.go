package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/quorate/quorate/client"
)

// The exit codes of every command.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotFound    = 3
	exitTimeout     = 4
	exitUnavailable = 5
)

// exitError is an error that carries its exit code. quiet: everything has been said already.
type exitError struct {
	code  int
	err   error
	quiet bool
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// usagef is an error of the command line: exit code 2.
func usagef(format string, args ...any) error {
	return &exitError{code: exitUsage, err: fmt.Errorf(format, args...)}
}

// failed marks an error that a command met while it ran, as against cobra's own, which are errors of usage.
func failed(err error) error {
	var e *exitError
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &exitError{code: codeOf(err), err: err}
}

// codeOf maps an error to its exit code.
func codeOf(err error) int {
	switch {
	case errors.Is(err, client.ErrNotFound):
		return exitNotFound
	case errors.Is(err, client.ErrUnavailable) && !client.Unknown(err): // its time was over too, but what it waited for was a leader
		return exitUnavailable
	case errors.Is(err, client.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	case errors.Is(err, client.ErrNoLeader), errors.Is(err, client.ErrOverloaded):
		return exitUnavailable
	}
	return exitFailed
}

// report prints what went wrong, if anything, and returns the exit code.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return exitDone
	}
	var e *exitError
	if !errors.As(err, &e) {
		e = &exitError{code: exitUsage, err: err}
	}
	if !e.quiet {
		fmt.Fprintf(stderr, "quorate: %v\n", e.err)
		if e.code == exitUsage {
			fmt.Fprintln(stderr, "Try the same command with --help.")
		}
	}
	return e.code
}
