package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/quorate/quorate/client"
)

// watch follows the queue's counters: it draws the progress bar, measures the longest time without a recorded result,
// and calls half once when half of the work is done.
type watch struct {
	cl    *client.Client
	total int64
	half  func()
	// Read them after run has returned.
	longest time.Duration
	halfway bool // half has been called
}

func (w *watch) run(ctx context.Context) {
	bar := isTerminal(os.Stdout)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	done, last, started := int64(0), time.Now(), time.Now()
	for {
		select {
		case <-ctx.Done():
			w.longest = max(w.longest, time.Since(last))
			if bar {
				w.draw(w.total, started)
				fmt.Println()
			}
			return
		case <-tick.C:
		}
		q, err := w.cl.Queue(ctx, queue) // waits through a leader change: that is the stall to measure
		if err != nil {
			continue
		}
		if q.Results > done {
			w.longest = max(w.longest, time.Since(last))
			done, last = q.Results, time.Now()
		}
		if !w.halfway && done*2 >= w.total {
			w.halfway = true
			w.half()
		}
		if bar {
			w.draw(done, started)
		}
	}
}

// leaderKilled waits for what half has begun, after all the work is done and run has returned. Few files are done before run
// has looked once: then no leader is going to be killed, and there is nothing to wait for.
func (w *watch) leaderKilled(killed <-chan error) error {
	if !w.halfway {
		return fmt.Errorf("%d files are done before a leader could be killed half-way: choose a folder with some hundreds of files", w.total)
	}
	select {
	case err := <-killed:
		return err
	case <-time.After(time.Minute):
		return errors.New("a minute after the work ended, the leader that was killed half-way is not back")
	}
}

func (w *watch) draw(done int64, started time.Time) {
	const width = 40
	full := int(done * width / w.total)
	fmt.Printf("\r[%s%s] %d/%d  %.0f/s ", strings.Repeat("#", full), strings.Repeat(".", width-full), done, w.total,
		float64(done)/time.Since(started).Seconds())
}

func isTerminal(f *os.File) bool {
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
