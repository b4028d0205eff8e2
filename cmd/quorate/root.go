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
	wait           *waiting // of the command's client, once there is one
}

const defaultAddr = "127.0.0.1:7340"

func newRoot(stdin io.Reader, stdout, stderr io.Writer) *cobra.Command {
	c := &cli{stdin: stdin, stdout: stdout, stderr: stderr}
	root := &cobra.Command{
		Use:           "quorate",
		Short:         "A replicated queue broker: leases, retries, dead letters and results, in one binary",
		Version:       version,
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
	root.SetVersionTemplate(versionLine())
	sayUsage(root)
	root.SetFlagErrorFunc(wrongFlag)
	root.SetUsageTemplate(root.UsageTemplate() + durationHelp)
	return root
}

// needsVerb is what a noun without a verb does: help, and the exit code of a wrong command line.
func needsVerb(cmd *cobra.Command, _ []string) error {
	_ = cmd.Help() // to standard output, which is all that can go wrong
	return &exitError{code: exitUsage, err: fmt.Errorf("%s needs a verb", cmd.CommandPath()), quiet: true}
}

// connect opens a client; the caller closes it with the returned function.
func (c *cli) connect(ctx context.Context) (*client.Client, func(), error) {
	var addrs []string
	for _, a := range strings.Split(c.addr, ",") {
		if a = strings.TrimSpace(a); a == "" {
			continue
		}
		if err := hostPort(&a); err != nil {
			return nil, nil, usagef("--addr: %w", err)
		}
		addrs = append(addrs, a)
	}
	if len(addrs) == 0 {
		return nil, nil, usagef("--addr is empty, want host:port[,host:port…]")
	}
	octx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	wait := newWaiting(c.stderr, c.addr, c.timeout, waitingAfter)
	cl, err := client.Open(octx, client.Options{Addrs: addrs, Name: "quorate-cli/" + version, Timeout: c.timeout, Logger: slog.New(wait)})
	c.wait = wait
	if err != nil {
		wait.end()
		if ctx.Err() == nil && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, client.ErrUnavailable)) {
			return nil, nil, &exitError{code: exitUnavailable, err: c.unreachable()}
		}
		return nil, nil, err // it names the address
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
		return c.plain(failed(flagged(cmd, f(cmd.Context(), cl, args))))
	}
}
