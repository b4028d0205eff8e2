package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// cli is what all commands share.
type cli struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	addr           string
	output         string
	timeout        time.Duration
}

const defaultAddr = "127.0.0.1:7340"

func newRoot(stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	c := &cli{stdin: stdin, stdout: stdout, stderr: stderr}
	root := &cobra.Command{
		Use:           "quorate",
		Short:         "A replicated queue broker: leases, retries, dead letters and results, in one binary",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          noSuchVerb,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	env := os.Getenv("QUORATE_ADDR")
	if env == "" {
		env = defaultAddr
	}
	f := root.PersistentFlags()
	f.StringVar(&c.addr, "addr", env, "client addresses of any nodes, comma-separated (QUORATE_ADDR)")
	f.StringVarP(&c.output, "output", "o", "table", "table or json")
	f.Var(newSpan(&c.timeout, 30*time.Second), "call-timeout", "how long one call may take")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		warnStray(stderr, os.Environ())
		if c.output != "table" && c.output != "json" {
			return usagef("--output is %q, want table or json", c.output)
		}
		if c.timeout <= 0 {
			return usagef("--call-timeout is %s, want more than 0", c.timeout)
		}
		return nil
	}
	root.AddCommand(
		newDev(c), newServe(c), newEnqueue(c), newWork(c),
		newLease(c), newAck(c), newNack(c), newExtend(c), newRelease(c),
		newQueue(c), newDLQ(c), newSchedule(c), newResult(c), newTask(c), newKV(c), newBatch(c), newCluster(c),
		newConfig(c), newDoctor(c), newLog(c), newBench(c), newFloorNode(c), newVersion(c),
	)
	sayUsage(root)
	root.SetFlagErrorFunc(wrongFlag)
	root.SetUsageTemplate(root.UsageTemplate() + durationHelp)
	return root
}

// sayUsage makes every command answer a wrong number of arguments with its usage line, not with a count alone.
func sayUsage(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		sayUsage(sub)
		check := sub.Args
		if check == nil {
			continue
		}
		sub.Args = func(cmd *cobra.Command, args []string) error {
			err := check(cmd, args)
			var said *exitError
			if err == nil || errors.As(err, &said) {
				return err
			}
			return usagef("%w; want %s", err, cmd.UseLine())
		}
	}
}

// noSuchVerb refuses a word that is no command, and names those that were perhaps meant.
func noSuchVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2
	hint := ""
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usagef("unknown command %q for %q%s", args[0], cmd.CommandPath(), hint)
}

// needsVerb is what a noun without a verb does: help, and the exit code of a wrong command line.
func needsVerb(cmd *cobra.Command, _ []string) error {
	_ = cmd.Help() // to standard output, which is all that can go wrong
	return &exitError{code: exitUsage, err: fmt.Errorf("%s needs a verb", cmd.CommandPath()), quiet: true}
}

// wrongFlag blames the word before the flag where that is no command: a noun has no flags of a verb that it has not.
func wrongFlag(cmd *cobra.Command, err error) error {
	if cmd.HasSubCommands() {
		if unknown := noSuchVerb(cmd, cmd.Flags().Args()); unknown != nil {
			return unknown
		}
	}
	return err
}

// connect opens a client; the caller closes it with the returned function.
func (c *cli) connect(ctx context.Context) (*client.Client, func(), error) {
	var addrs []string
	for _, a := range strings.Split(c.addr, ",") {
		if a = strings.TrimSpace(a); a != "" {
			addrs = append(addrs, a)
		}
	}
	if len(addrs) == 0 {
		return nil, nil, usagef("--addr is empty, want host:port[,host:port…]")
	}
	octx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	wait := newWaiting(c.stderr, c.addr, c.timeout, waitingAfter)
	cl, err := client.Open(octx, client.Options{Addrs: addrs, Name: "quorate-cli/" + version, Timeout: c.timeout, Logger: slog.New(wait)})
	if err != nil {
		wait.end()
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, client.ErrUnavailable) {
			return nil, nil, &exitError{code: exitUnavailable, err: fmt.Errorf("connect to %s: %w", c.addr, err)}
		}
		return nil, nil, fmt.Errorf("connect to %s: %w", c.addr, err)
	}
	return cl, func() {
		wait.end()
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = cl.Close(ctx) // everything of this command has been answered
	}, nil
}

// with wraps a command that talks to the cluster.
func (c *cli) with(f func(ctx context.Context, cl *client.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		cl, done, err := c.connect(cmd.Context())
		if err != nil {
			return failed(err)
		}
		defer done()
		return failed(flagged(cmd, f(cmd.Context(), cl, args)))
	}
}
