package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	_ "time/tzdata" // schedules name time zones, and the machine may have none
)

// version is set by the linker.
var version = "dev"

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is execute under the process's signals: the first SIGINT or SIGTERM cancels the command's context, a second one
// ends the process at once.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	return execute(ctx, args, stdin, stdout, stderr)
}

// errInterrupted is said where a signal ended a command before it was through.
var errInterrupted = errors.New("interrupted")

// execute runs one command line and returns its exit code. One whose output could not be written has failed, whatever it did.
func execute(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	out := &watchedWriter{w: stdout}
	root := newRoot(stdin, out, stderr)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if lost := out.failed(); err == nil && lost != nil {
		err = failed(fmt.Errorf("standard output: %w", lost))
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = &exitError{code: exitFailed, err: errInterrupted}
	}
	return report(stderr, err)
}
