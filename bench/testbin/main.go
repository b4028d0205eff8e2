package testbin

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Main carries out a command that shows something by running tests: define declares its flags and gives what is to be done once they
// are known, until the process is interrupted. The exit code is 0 when all that was asked for is shown, 1 when not, 2 when it could not
// begin, with the reason on progress.
func Main(name string, args []string, progress io.Writer, define func(*flag.FlagSet) func(context.Context) (bool, error)) int {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(progress)
	start := define(flags)
	if flags.Parse(args) != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ok, err := start(ctx)
	switch {
	case err != nil:
		fmt.Fprintf(progress, "%s: %v\n", name, err)
		return 2
	case !ok:
		return 1
	}
	return 0
}
