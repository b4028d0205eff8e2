package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

const queue = "files"

type options struct {
	binary, dir, data    string
	workers, concurrency int
	port                 int // the first of those that a cluster in the foreground takes
}

// task is one file and what became of it.
type task struct {
	path   string
	id     string
	result string
	runs   int
}

func demo(ctx context.Context, o options) error {
	began := time.Now()
	tasks, err := findFiles(o.dir)
	if err != nil {
		return err
	}
	if len(tasks) == 0 {
		return fmt.Errorf("there is no regular file below %s", o.dir)
	}
	dir := o.data
	if dir == "" {
		if dir, err = os.MkdirTemp("", "quorate-demo-"); err != nil {
			return fmt.Errorf("make a folder for the data: %w", err)
		}
		defer func() { _ = os.RemoveAll(dir) }() // a temporary folder: the system cleans up what is left
	}
	c, err := proc.New(proc.Config{Binary: o.binary, Nodes: 3, Dir: dir})
	if err != nil {
		return err
	}
	defer c.Kill()
	sctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := c.Start(sctx); err != nil {
		return err
	}
	fmt.Printf("three nodes are up on loopback after %.1f s; %d files below %s\n", time.Since(began).Seconds(), len(tasks), o.dir)

	cl, err := client.Open(sctx, client.Options{Addrs: c.Addrs(), Name: "demo", Timeout: 2 * time.Minute})
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer closeClient(cl)
	stopWorkers, err := startWorkers(o, c.Addrs(), dir)
	if err != nil {
		return err
	}
	defer stopWorkers()
	if err := enqueue(ctx, cl, tasks); err != nil {
		return err
	}

	w := &watch{cl: cl, total: int64(len(tasks))}
	killed := make(chan error, 1)
	w.half = func() { go func() { killed <- killLeader(ctx, c) }() }
	wctx, stopWatch := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { w.run(wctx) })
	err = collect(ctx, cl, tasks)
	stopWatch()
	watching.Wait()
	if err != nil {
		return err
	}
	if err := w.leaderKilled(killed); err != nil {
		return err
	}
	stopWorkers()
	return summary(ctx, cl, tasks, w, began)
}

func closeClient(cl *client.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = cl.Close(ctx) // all results are in
}

// findFiles lists the regular files, as absolute paths: the workers run elsewhere.
func findFiles(dir string) ([]*task, error) {
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	var tasks []*task
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Type().IsRegular() {
			tasks = append(tasks, &task{path: path})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list files: %w", err)
	}
	return tasks, nil
}

// startWorkers starts the worker processes; the returned function, which may be called again, stops them and waits.
func startWorkers(o options, addrs []string, dir string) (func(), error) {
	var cmds []*exec.Cmd
	log, err := os.OpenFile(filepath.Join(dir, "workers.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the workers' log: %w", err)
	}
	stop := sync.OnceFunc(func() {
		for _, cmd := range cmds {
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		}
		for _, cmd := range cmds {
			t := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
			_ = cmd.Wait() // how a worker ends does not matter: the results say whether it worked
			t.Stop()
		}
		log.Close()
	})
	for range o.workers {
		// The path goes in on standard input, exact to the byte: the x keeps the shell from cutting trailing newlines.
		cmd := exec.Command(o.binary, "work", queue, "--addr", strings.Join(addrs, ","), "--concurrency", fmt.Sprint(o.concurrency), "--lease", "5s",
			"--", "sh", "-c", `p=$(cat; echo x); exec sha256sum < "${p%x}"`)
		cmd.Stdout, cmd.Stderr = log, log
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
		if err := cmd.Start(); err != nil {
			stop()
			return nil, fmt.Errorf("start a worker: %w", err)
		}
		cmds = append(cmds, cmd)
	}
	return stop, nil
}

// enqueue sends one message a file, pipelined, and notes the ids.
func enqueue(ctx context.Context, cl *client.Client, tasks []*task) error {
	var wg sync.WaitGroup
	errs := make(chan error, len(tasks))
	for _, t := range tasks {
		wg.Add(1)
		err := cl.EnqueueAsync(ctx, queue, client.Message{Body: []byte(t.path), Kind: "sha256"}, func(r client.Receipt, err error) {
			t.id = r.ID
			if err != nil {
				errs <- fmt.Errorf("enqueue %q: %w", t.path, err)
			}
			wg.Done()
		})
		if err != nil {
			wg.Done()
			errs <- fmt.Errorf("enqueue %q: %w", t.path, err)
			break
		}
	}
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return nil
	}
}

// killLeader kills the leader with SIGKILL, waits for another, and starts the killed one again.
func killLeader(ctx context.Context, c *proc.Cluster) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	old, err := c.Leader(ctx)
	if err != nil {
		return err
	}
	old.Kill()
	at := time.Now()
	next, err := c.Leader(ctx)
	if err != nil {
		return fmt.Errorf("after the leader %s was killed: %w", old.Name, err)
	}
	fmt.Printf("\nkilled the leader %s with SIGKILL; %s leads %d ms later; %s starts again\n", old.Name, next.Name, time.Since(at).Milliseconds(), old.Name)
	if err := old.Start(); err != nil {
		return err
	}
	return old.WaitReady(ctx)
}

// collect waits for every result, 64 at a time.
func collect(ctx context.Context, cl *client.Client, tasks []*task) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	work := make(chan *task)
	errs := make(chan error, 64)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for t := range work {
				r, err := cl.WaitResult(ctx, queue, t.id)
				switch {
				case err != nil:
					err = fmt.Errorf("result of %q: %w", t.path, err)
				case r.Dead != nil:
					err = fmt.Errorf("%q died: %s", t.path, r.Dead.Error)
				default:
					t.result, t.runs = string(r.Result.Output), r.Result.Attempts
				}
				if err != nil {
					select {
					case errs <- err:
					default:
					}
					cancel()
				}
			}
		})
	}
	for _, t := range tasks {
		select {
		case work <- t:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(work)
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return ctx.Err()
	}
}

// summary compares every result with the hash computed directly.
func summary(ctx context.Context, cl *client.Client, tasks []*task, w *watch, began time.Time) error {
	wrong, again := 0, 0
	for _, t := range tasks {
		sum, err := hashFile(t.path)
		if err != nil {
			return err
		}
		if t.result != sum+"  -\n" {
			wrong++
			fmt.Printf("WRONG  %q: recorded %q, computed %s\n", t.path, t.result, sum)
		}
		again += t.runs - 1
	}
	q, err := cl.Queue(ctx, queue)
	if err != nil {
		return fmt.Errorf("read the queue's counters: %w", err)
	}
	fmt.Printf("messages               %d\n", len(tasks))
	fmt.Printf("duplicates delivered   %d\n", again)
	fmt.Printf("results recorded once  %d\n", q.Results)
	fmt.Printf("longest stall          %d ms\n", w.longest.Milliseconds())
	fmt.Printf("results equal hashes   %d of %d\n", len(tasks)-wrong, len(tasks))
	fmt.Printf("took                   %.1f s\n", time.Since(began).Seconds())
	if wrong > 0 || q.Results != int64(len(tasks)) {
		return fmt.Errorf("%d results are wrong; %d recorded of %d", wrong, q.Results, len(tasks))
	}
	return nil
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("hash %q: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
