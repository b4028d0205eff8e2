package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

const (
	permanentExit = 100      // a command that ends with this says: do not try again
	errorTail     = 4 << 10  // bytes of standard error kept with a failed attempt
	outputLimit   = 16 << 20 // bytes of standard output kept as the result, the largest a cluster can be set to take
)

func newWork(c *cli) *cobra.Command {
	var concurrency, prefetch int
	var timeout, lease, drainFor millis
	var drain bool
	var worker string
	cmd := &cobra.Command{
		Use:   "work QUEUE… [flags] -- CMD [ARGS…]",
		Short: "Run a command for every message of the queues",
		Long: `Run CMD once for every message. The body is its standard input; QUORATE_ID, QUORATE_TASK_ID, QUORATE_TOKEN,
QUORATE_QUEUE, QUORATE_KIND, QUORATE_ATTEMPT, QUORATE_PRIORITY, QUORATE_KEY, QUORATE_CONTENT_TYPE and
QUORATE_HEADER_<NAME> are its environment.

Exit 0 acks, with standard output as the result. Exit 100 is a permanent failure. Any other end is a failed attempt
whose error is the tail of standard error. The lease is extended while the command runs.

A queue that does not exist yet is waited for; --drain takes it for empty.

SIGTERM or Ctrl-C: no new messages, what runs is finished, the rest is released. A second one ends everything.`,
		Example: "  quorate work thumbnails --concurrency 8 -- ./make-thumbnail",
	}
	f := cmd.Flags()
	f.IntVar(&concurrency, "concurrency", 1, "commands at once, per queue")
	f.IntVar(&prefetch, "prefetch", 0, "messages held per queue, running ones included (default twice the concurrency)")
	f.Var(&timeout, "timeout", "end a command that runs longer; a failed attempt")
	f.Var(&lease, "lease", "lease length (default: the queue's)")
	f.Var(&drainFor, "drain-timeout", "at the end, how long running commands may go on (default 30s)")
	f.BoolVar(&drain, "drain", false, "stop when the queues are empty")
	f.StringVar(&worker, "worker", "", "name shown while messages are out (default host:pid)")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		at := cmd.ArgsLenAtDash()
		switch {
		case at < 0 || at == len(args):
			return usagef("there is no command: quorate work QUEUE… -- CMD [ARGS…]")
		case at == 0:
			return usagef("there is no queue before --: quorate work QUEUE… -- CMD [ARGS…]")
		case concurrency < 1 || concurrency > 1000:
			return usagef("--concurrency is %d, want 1 to 1000", concurrency)
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		at := cmd.ArgsLenAtDash()
		queues, argv := args[:at], args[at:]
		if _, err := exec.LookPath(argv[0]); err != nil {
			if errors.Is(err, exec.ErrNotFound) {
				return usagef("there is no program %q in PATH", argv[0])
			}
			return usagef("program %q: %w", argv[0], errors.Unwrap(err))
		}
		return c.with(func(ctx context.Context, cl *client.Client, _ []string) error {
			if drainFor == 0 {
				drainFor = 30_000
			}
			o := client.ConsumeOptions{Concurrency: concurrency, Prefetch: prefetch, Lease: lease.duration(), Worker: worker,
				DrainTimeout: drainFor.duration(), StopWhenEmpty: drain}
			w := &commandWorker{argv: argv, timeout: timeout.duration(), log: c.stderr, quiet: c.asJSON()}
			ctx, stop := context.WithCancel(ctx)
			defer stop()
			for _, q := range queues {
				c.sayMissing(ctx, cl, q, drain)
			}
			errs := make([]error, len(queues))
			var wg sync.WaitGroup
			for i, q := range queues {
				wg.Go(func() {
					errs[i] = cl.Consume(ctx, q, o, w.handle)
					if errs[i] != nil {
						stop() // one queue that cannot be consumed ends the whole, which says why
					}
				})
			}
			wg.Wait()
			for i, err := range errs {
				if err != nil && !errors.Is(err, context.Canceled) {
					return fmt.Errorf("queue %s: %w", queues[i], err)
				}
			}
			return nil
		})(cmd, args)
	}
	return cmd
}

// sayMissing says of a queue that is not there what a worker does about it: a name that was misspelt looks like a queue without work. What
// else is wrong with a queue the worker itself is told.
func (c *cli) sayMissing(ctx context.Context, cl *client.Client, queue string, drain bool) {
	if _, err := cl.Queue(ctx, queue); !errors.Is(err, client.ErrNotFound) {
		return
	}
	if drain {
		fmt.Fprintf(c.stderr, "quorate: queue %q does not exist: nothing is to be done\n", queue)
		return
	}
	fmt.Fprintf(c.stderr, "quorate: queue %q does not exist yet: waiting for its first message, or for quorate queue create\n", queue)
}

// commandWorker runs one process a message.
type commandWorker struct {
	argv    []string
	timeout time.Duration
	quiet   bool
	log     interface{ Write([]byte) (int, error) }
}

func (w *commandWorker) handle(ctx context.Context, d *client.Delivery) (*client.Result, error) {
	if w.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, w.timeout)
		defer cancel()
	}
	cmd := exec.CommandContext(ctx, w.argv[0], w.argv[1:]...)
	cmd.Env = append(os.Environ(), environment(d)...)
	cmd.Stdin = bytes.NewReader(d.Body)
	out := &limited{most: outputLimit}
	tail := &tailBuffer{most: errorTail}
	cmd.Stdout, cmd.Stderr = out, tail
	// A group of its own: Ctrl-C reaches the worker alone, and the end of an attempt takes the command's children along.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second // children may hold the pipes open
	err := cmd.Run()
	switch {
	case err == nil && out.over:
		return nil, client.Permanent(fmt.Errorf("output is longer than %d bytes", outputLimit))
	case err == nil && d.AtMostOnce: // it was done before it ran, without a result
		return nil, nil
	case err == nil:
		return &client.Result{Output: out.buf.Bytes(), ContentType: "application/octet-stream"}, nil
	case ctx.Err() != nil && w.timeout > 0 && errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("ended after %s: %w", w.timeout, err)
	}
	if t := strings.TrimSpace(tail.String()); t != "" {
		err = fmt.Errorf("%w: %s", err, t)
	}
	if !w.quiet {
		fmt.Fprintf(w.log, "quorate: %s attempt %d: %s\n", d.ID, d.Attempt, printable(err.Error()))
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == permanentExit {
		return nil, client.Permanent(err)
	}
	return nil, err
}

// environment is the message's fields as variables. A name or value with a NUL byte cannot be one and is left out.
func environment(d *client.Delivery) []string {
	env := []string{
		"QUORATE_ID=" + d.ID, "QUORATE_TASK_ID=" + d.TaskID, "QUORATE_TOKEN=" + d.Token, "QUORATE_QUEUE=" + d.Queue,
		"QUORATE_KIND=" + d.Kind, fmt.Sprintf("QUORATE_ATTEMPT=%d", d.Attempt), fmt.Sprintf("QUORATE_PRIORITY=%d", d.Priority),
		"QUORATE_KEY=" + string(d.Key), "QUORATE_CONTENT_TYPE=" + d.ContentType,
	}
	for _, h := range d.Headers {
		name := strings.Map(func(r rune) rune {
			switch {
			case r >= 'a' && r <= 'z':
				return r - 'a' + 'A'
			case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
				return r
			}
			return '_'
		}, h.Name)
		env = append(env, "QUORATE_HEADER_"+name+"="+h.Value)
	}
	kept := env[:0]
	for _, e := range env {
		if !strings.Contains(e, "\x00") {
			kept = append(kept, e)
		}
	}
	return kept
}

// limited keeps the first bytes written and notes whether there were more.
type limited struct {
	buf  bytes.Buffer
	most int
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	if room := l.most - l.buf.Len(); room < len(p) {
		l.over = true
		l.buf.Write(p[:room])
		return len(p), nil
	}
	return l.buf.Write(p)
}

// tailBuffer keeps the last bytes written.
type tailBuffer struct {
	b    []byte
	most int
}

func (t *tailBuffer) Write(p []byte) (int, error) {
	t.b = append(t.b, p...)
	if extra := len(t.b) - t.most; extra > t.most {
		t.b = append(t.b[:0], t.b[extra:]...)
	}
	return len(p), nil
}

func (t *tailBuffer) String() string {
	b := t.b
	if len(b) > t.most {
		b = b[len(b)-t.most:]
	}
	return strings.ToValidUTF8(string(b), "\uFFFD")
}
