package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

type enqueueFlags struct {
	file, at, kind, key, dedupKey, contentType, taskID, retry string
	headers, lostKeys                                         []string
	batch                                                     string
	lines, null                                               bool
	delay, ttl, timeout                                       millis
	priority                                                  int
}

func newEnqueue(c *cli) *cobra.Command {
	var f enqueueFlags
	cmd := &cobra.Command{
		Use:   "enqueue QUEUE [BODY]",
		Short: "Add messages to a queue; prints their ids",
		Long: `Add messages to a queue and print their ids once they are on a majority's disks.

The body is the argument, the contents of --file (- is standard input), or with --lines each line of standard
input (--null: each part that ends in a NUL byte). Without any of them it is empty.`,
		Example: "  quorate enqueue thumbnails photo.jpg --retry exponential:1s..60s*5\n" +
			"  find . -type f -print0 | quorate enqueue files --null",
		Args: cobra.RangeArgs(1, 2),
	}
	fl := cmd.Flags()
	fl.StringVar(&f.file, "file", "", "read the body from this file; - is standard input")
	fl.BoolVar(&f.lines, "lines", false, "one message a line of standard input")
	fl.BoolVar(&f.null, "null", false, "one message a NUL-terminated part of standard input")
	fl.Var(&f.delay, "delay", "deliver no sooner than this from now")
	fl.StringVar(&f.at, "at", "", "deliver no sooner than this time (RFC 3339)")
	fl.IntVar(&f.priority, "priority", 4, "0 to 9, 9 first")
	fl.StringVar(&f.key, "key", "", "ordering key")
	fl.StringVar(&f.dedupKey, "dedup-key", "", "the same key within the queue's window adds nothing and answers the first id")
	fl.StringVar(&f.kind, "kind", "", "task type, for handlers and metrics")
	fl.StringVar(&f.contentType, "content-type", "", "of the body")
	fl.StringArrayVar(&f.headers, "header", nil, "name=value; may be given more than once")
	fl.StringArrayVar(&f.lostKeys, "key-if-undelivered", nil, "KV key that gets the body if the message dies, its strings\njoined by slashes (orders/17) or as JSON ([\"a/b\",\"c\"]); up to 16 times")
	fl.StringVar(&f.batch, "batch", "", "id of the batch of which the messages are members (see quorate batch)")
	fl.StringVar(&f.retry, "retry", "", "retry policy instead of the queue's: "+retryHelp)
	fl.StringVar(&f.taskID, "task-id", "", "name under which the result is recorded")
	fl.Var(&f.ttl, "ttl", "the message expires this long after now")
	fl.Var(&f.timeout, "timeout", "how long one attempt may run in all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m, err := f.message()
		if err != nil {
			return err
		}
		if err := f.source(args); err != nil {
			return err
		}
		return c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			switch {
			case f.lines || f.null:
				return c.enqueueMany(ctx, cl, args[0], m, f)
			case f.file == "-":
				m.Body, err = io.ReadAll(c.stdin)
			case f.file != "":
				m.Body, err = os.ReadFile(f.file)
			case len(args) == 2:
				m.Body = []byte(args[1])
			}
			if err != nil {
				return fmt.Errorf("read the body: %w", err)
			}
			r, err := cl.Enqueue(ctx, args[0], m)
			if err != nil {
				return err
			}
			return c.receipt(r)
		})(cmd, args)
	}
	return cmd
}

func (f *enqueueFlags) source(args []string) error {
	n := 0
	for _, given := range []bool{len(args) == 2, f.file != "", f.lines, f.null} {
		if given {
			n++
		}
	}
	if n > 1 {
		return usagef("give only one of BODY, --file, --lines and --null")
	}
	if (f.lines || f.null) && (f.taskID != "" || f.dedupKey != "") {
		return usagef("--task-id and --dedup-key name one message; they do not go with --lines or --null")
	}
	return nil
}

// message builds everything but the body.
func (f *enqueueFlags) message() (client.Message, error) {
	m := client.Message{TaskID: f.taskID, Kind: f.kind, ContentType: f.contentType, Priority: client.Priority(f.priority),
		Delay: f.delay.duration(), TTL: f.ttl.duration(), Timeout: f.timeout.duration(), Batch: f.batch}
	if f.key != "" {
		m.Key = []byte(f.key)
	}
	if f.dedupKey != "" {
		m.DedupKey = []byte(f.dedupKey)
	}
	if f.at != "" {
		t, err := time.Parse(time.RFC3339, f.at)
		if err != nil {
			return m, usagef("--at is %q, want a time such as 2026-12-24T18:00:00Z", f.at)
		}
		if f.delay != 0 {
			return m, usagef("give only one of --delay and --at")
		}
		m.EnqueueAt = t
	}
	for _, h := range f.headers {
		k, v, ok := strings.Cut(h, "=")
		if !ok {
			return m, usagef("--header is %q, want name=value", h)
		}
		m.Headers = append(m.Headers, client.Header{Name: k, Value: v})
	}
	for _, k := range f.lostKeys {
		key, err := parseKey(k)
		if err != nil {
			return m, usagef("--key-if-undelivered: %v", err)
		}
		m.KeysIfUndelivered = append(m.KeysIfUndelivered, key)
	}
	if f.retry != "" {
		p, err := parseRetry(f.retry)
		if err != nil {
			return m, usagef("--%w", err)
		}
		m.Retry = p
	}
	return m, nil
}

// receipt prints one enqueued message.
func (c *cli) receipt(r client.Receipt) error {
	if c.asJSON() {
		return c.jsonLine(map[string]any{"id": r.ID, "task_id": r.TaskID, "duplicate": r.Duplicate})
	}
	if r.Duplicate {
		fmt.Fprintf(c.stdout, "%s (duplicate)\n", r.ID)
		return nil
	}
	fmt.Fprintln(c.stdout, r.ID)
	return nil
}

// maxLine bounds one line of --lines: the largest body a cluster can be set to take, and a bit to see that it is longer.
const maxLine = 16<<20 + 1

// enqueueMany sends every part of standard input as a message, many under way at once. Each gets its own answer: a
// refused one is said on standard error, and the rest go on.
func (c *cli) enqueueMany(ctx context.Context, cl *client.Client, queue string, m client.Message, f enqueueFlags) error {
	sc := bufio.NewScanner(c.stdin)
	sc.Buffer(make([]byte, 64<<10), maxLine)
	if f.null {
		sc.Split(splitNull)
	}
	var (
		wg      sync.WaitGroup
		mu      sync.Mutex // guards the output and what follows
		failed  int
		firstly error
		n       int
	)
	for sc.Scan() {
		n++
		at := n
		one := m
		one.Body = append([]byte(nil), sc.Bytes()...)
		wg.Add(1)
		err := cl.EnqueueAsync(ctx, queue, one, func(r client.Receipt, err error) {
			defer wg.Done()
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				err = c.receipt(r)
			}
			if err != nil {
				failed++
				if firstly == nil {
					firstly = err
				}
				fmt.Fprintf(c.stderr, "quorate: message %d: %s\n", at, c.words(err))
			}
		})
		if err != nil {
			wg.Done()
			if errors.Is(err, client.ErrTooLarge) { // this one alone
				mu.Lock()
				failed++
				if firstly == nil {
					firstly = err
				}
				fmt.Fprintf(c.stderr, "quorate: message %d: %s\n", at, c.words(err))
				mu.Unlock()
				continue
			}
			wg.Wait()
			return fmt.Errorf("message %d: %w", at, err)
		}
	}
	wg.Wait()
	if err := sc.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("message %d is longer than %d bytes; those before it were sent", n+1, maxLine-1)
	} else if err != nil {
		return fmt.Errorf("read standard input: %w", err)
	}
	if failed > 0 {
		return &exitError{code: codeOf(firstly), err: fmt.Errorf("%d of %d messages were not confirmed", failed, n)}
	}
	return nil
}

// splitNull is a bufio.SplitFunc for NUL-terminated parts.
func splitNull(data []byte, atEOF bool) (int, []byte, error) {
	for i, b := range data {
		if b == 0 {
			return i + 1, data[:i], nil
		}
	}
	if atEOF && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}
