package load

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/client"
)

const (
	queuedLook    = 50 * time.Millisecond // how often it is looked at who writes a snapshot
	queuedTail    = 3 * time.Second       // of load after the last snapshot
	queuedWithin  = 15 * time.Minute      // until each node has taken one
	restartWithin = 10 * time.Minute
	restartTry    = 2 * time.Second // of one enqueue after the restart
)

// QueuedResult is what Queued finds.
type QueuedResult struct {
	Messages int     `json:"messages"`
	Payload  int64   `json:"payload_bytes"`   // of all bodies
	FillRate float64 `json:"fill_msgs_per_s"` // while they were enqueued
	RSS      []int64 `json:"rss_bytes"`       // of each node, all being queued
	RSSMost  []int64 `json:"rss_bytes_most"`  // of each node under the load beside them, snapshots included
	RSSAfter []int64 `json:"rss_bytes_after"` // of each node after the last restart

	HoldMS     []float64 `json:"snapshot_hold_ms"` // of each node: how long its state stood still for a snapshot
	WriteS     []float64 `json:"snapshot_write_s"` // of each node: how long the writing took
	RateNone   float64   `json:"msgs_per_s_no_snapshot"`
	RateOther  float64   `json:"msgs_per_s_follower_snapshot"` // while a follower writes one, and not the leader
	RateLeader float64   `json:"msgs_per_s_leader_snapshot"`

	OneS   float64 `json:"restart_one_s"` // from kill -9 of a follower until it is ready and has applied what the leader had committed then
	AllS   float64 `json:"restart_all_s"` // from the start of all after kill -9 of all until one more message was confirmed
	DrainS float64 `json:"drain_s"`       // until each message had been received and acked, in the end
}

// queued puts Count messages into a queue and finds what they cost: memory, the snapshots of the nodes under a load of W3 beside
// them in another queue, the restart of one node and of all. In the end every message is received, and accounted for.
func (r *run) queued(ctx context.Context, admin Conn) (*Result, error) {
	cfg := &r.cfg
	nodes := cfg.Cluster.Nodes
	q := &QueuedResult{Messages: cfg.Count, Payload: int64(cfg.Count) * int64(cfg.Size)}
	begun := time.Now()
	if err := r.preload(ctx, cfg.Count); err != nil {
		return nil, err
	}
	q.FillRate = float64(cfg.Count) / time.Since(begun).Seconds()
	q.RSS = cfg.ServerRSS()
	res, err := r.besideQueued(ctx, admin, q)
	if err != nil {
		return nil, err
	}
	cfg.Progress("restart one", r.ledger.confirmed.Load())
	if q.OneS, err = r.restartOne(ctx); err != nil {
		return nil, err
	}
	cfg.Progress("restart all", r.ledger.confirmed.Load())
	if q.AllS, err = r.restartAll(ctx, admin); err != nil {
		return nil, err
	}
	for _, n := range nodes {
		if err := n.WaitReady(ctx); err != nil {
			return nil, err
		}
	}
	q.RSSAfter = cfg.ServerRSS()
	begun = time.Now()
	if err := r.empty(ctx); err != nil {
		return nil, err
	}
	q.DrainS = time.Since(begun).Seconds()
	var sum Result
	r.close(&sum)
	res.add(&sum)
	res.Workload, res.Queued, res.EndToEnd = Queued, q, nil
	return res, nil
}

// empty receives and acknowledges all there is.
func (r *run) empty(ctx context.Context) error {
	cs, err := r.startConsumers(ctx)
	if err != nil {
		return err
	}
	defer closeConsumers(cs)
	defer r.progress("drain")()
	return r.await(ctx, r.drained, true)
}

// besideQueued keeps up a load of W3 in another queue until each node has begun and ended a snapshot.
func (r *run) besideQueued(ctx context.Context, admin Conn, q *QueuedResult) (*Result, error) {
	cfg := r.cfg
	cfg.Workload, cfg.Queue, cfg.Confirms = W3, cfg.Queue+".beside", new(Gap)
	s := newRun(cfg, r.fatal)
	if err := admin.CreateQueue(ctx, cfg.Queue, client.QueueOptions{}); err != nil {
		return nil, fmt.Errorf("create queue %s: %w", cfg.Queue, err)
	}
	defer s.dropQueue(ctx, admin)
	ps, _, closing, err := s.openBoth(ctx)
	if err != nil {
		return nil, err
	}
	defer closing()
	sending, stop := context.WithCancel(ctx)
	defer stop()
	done := sendAll(sending, ps)
	defer s.progress("snapshots")()
	if err := s.pause(ctx, cfg.WarmUp, nil); err != nil {
		return nil, err
	}
	sp := s.begin()
	if err := s.watchSnapshots(ctx, q); err != nil {
		return nil, err
	}
	res := s.end(sp)
	stop()
	<-done
	if err := s.await(ctx, s.drained, true); err != nil {
		return nil, err
	}
	s.close(res)
	return res, nil
}

// holdMetric is the group's histogram of how long a snapshot stopped it.
const holdMetric = "quorate_group_snapshot_hold_seconds"

// shot is what is seen of one node's snapshots.
type shot struct {
	node    *proc.Node
	sum     float64 // of holds before, s
	writing bool
	since   time.Time // of the one that is being written; zero: it had begun before
	done    bool
}

// writes says whether the node is writing a snapshot: it has a folder of another name until it is whole.
func (s *shot) writes() bool {
	found, _ := filepath.Glob(filepath.Join(s.node.DataDir, "snapshots", "*.tmp")) // the pattern is good
	return len(found) > 0
}

func (s *shot) held(ctx context.Context) (float64, error) {
	v, ok := s.node.Metric(ctx, holdMetric+"_sum")
	if !ok {
		return 0, fmt.Errorf("node %s does not tell %s", s.node.Name, holdMetric)
	}
	return v, nil
}

// watchSnapshots counts what is done while the leader, a follower and nobody writes a snapshot, until each has written one.
func (r *run) watchSnapshots(ctx context.Context, q *QueuedResult) error {
	nodes := r.cfg.Cluster.Nodes
	leader, err := r.cfg.Cluster.Leader(ctx)
	if err != nil {
		return err
	}
	shots := make([]*shot, len(nodes))
	q.HoldMS, q.WriteS, q.RSSMost = make([]float64, len(nodes)), make([]float64, len(nodes)), make([]int64, len(nodes))
	for i, n := range nodes {
		s := &shot{node: n}
		if s.sum, err = s.held(ctx); err != nil {
			return err
		}
		s.writing = s.writes()
		shots[i] = s
	}
	ctx, cancel := context.WithTimeoutCause(ctx, queuedWithin, fmt.Errorf("not every node has taken a snapshot within %s", queuedWithin))
	defer cancel()
	tick := time.NewTicker(queuedLook)
	defer tick.Stop()
	const none, follower, leading = 0, 1, 2
	var count [3]int64
	var took [3]time.Duration
	last, n, missing := time.Now(), r.completed.Load(), len(shots)
	var end <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-end:
			rates := [3]*float64{&q.RateNone, &q.RateOther, &q.RateLeader}
			for i := range rates {
				if took[i] > 0 {
					*rates[i] = float64(count[i]) / took[i].Seconds()
				}
			}
			return nil
		case <-tick.C:
		}
		now, m, state := time.Now(), r.completed.Load(), none
		for i, s := range shots {
			if s.writing && s.node == leader {
				state = leading
			} else if s.writing {
				state = max(state, follower)
			}
			q.RSSMost[i] = max(q.RSSMost[i], s.node.RSS())
			was := s.writing
			s.writing = s.writes()
			switch {
			case s.writing && !was:
				s.since = now
			case !s.writing && was && !s.since.IsZero() && !s.done:
				sum, err := s.held(ctx)
				if err != nil {
					return err
				}
				s.done = true
				q.HoldMS[i], q.WriteS[i] = (sum-s.sum)*1000, now.Sub(s.since).Seconds()
				missing--
			case !s.writing && was: // it had begun before
				if s.sum, err = s.held(ctx); err != nil {
					return err
				}
			}
		}
		count[state] += m - n
		took[state] += now.Sub(last)
		last, n = now, m
		if missing == 0 && end == nil {
			end = time.After(queuedTail)
		}
	}
}

// restartOne kills a follower and starts it again.
func (r *run) restartOne(ctx context.Context) (float64, error) {
	ctx, cancel := context.WithTimeout(ctx, restartWithin)
	defer cancel()
	leader, err := r.cfg.Cluster.Leader(ctx)
	if err != nil {
		return 0, err
	}
	for _, n := range r.cfg.Cluster.Nodes {
		if n == leader {
			continue
		}
		begun := time.Now()
		n.Kill()
		if err := n.Start(); err != nil {
			return 0, err
		}
		if err := n.WaitReady(ctx); err != nil {
			return 0, err
		}
		goal, ok := leader.Metric(ctx, "quorate_raft_commit_index")
		if !ok {
			return 0, fmt.Errorf("node %s does not tell its commit index", leader.Name)
		}
		for {
			if at, ok := n.Metric(ctx, "quorate_raft_applied_index"); ok && at >= goal {
				return time.Since(begun).Seconds(), nil
			}
			if err := r.pause(ctx, queuedLook, nil); err != nil {
				return 0, fmt.Errorf("node %s has not caught up after its restart: %w", n.Name, err)
			}
		}
	}
	return 0, errors.New("there is no follower to restart")
}

// restartAll kills and starts all nodes, and has a message confirmed in a queue of its own.
func (r *run) restartAll(ctx context.Context, admin Conn) (float64, error) {
	queue := r.cfg.Queue + ".restart"
	if err := admin.CreateQueue(ctx, queue, client.QueueOptions{}); err != nil {
		return 0, fmt.Errorf("create queue %s: %w", queue, err)
	}
	defer r.dropQueues(ctx, admin, queue)
	ctx, cancel := context.WithTimeout(ctx, restartWithin)
	defer cancel()
	var wg sync.WaitGroup
	for _, n := range r.cfg.Cluster.Nodes {
		wg.Go(n.Kill)
	}
	wg.Wait()
	begun := time.Now()
	for _, n := range r.cfg.Cluster.Nodes {
		if err := n.Start(); err != nil {
			return 0, err
		}
	}
	for {
		err := r.tryOne(ctx, queue)
		if err == nil {
			return time.Since(begun).Seconds(), nil
		}
		if e := r.pause(ctx, queuedLook, nil); e != nil {
			return 0, fmt.Errorf("nothing is confirmed after the restart of all: %w (the last try: %w)", e, err)
		}
	}
}

// tryOne has one message confirmed through a client of its own.
func (r *run) tryOne(ctx context.Context, queue string) error {
	ctx, cancel := context.WithTimeout(ctx, restartTry)
	defer cancel()
	conn, err := r.cfg.Open(ctx, "bench-restart")
	if err != nil {
		return err
	}
	defer closeConn(conn)
	_, err = conn.Enqueue(ctx, queue, client.Message{Body: NewBody(r.id, 1, r.cfg.Size)})
	return err
}

// print adds lines to a table.
func (q *QueuedResult) print(b *strings.Builder) {
	mb := func(rss []int64) (all []int64) {
		for _, v := range rss {
			all = append(all, v>>20)
		}
		return all
	}
	share := func(rss []int64) float64 { return float64(slices.Max(rss)) / float64(q.Payload) }
	fmt.Fprintf(b, "\n     %d messages queued, %d MiB of bodies, enqueued at %.0f/s", q.Messages, q.Payload>>20, q.FillRate)
	fmt.Fprintf(b, "\n     RSS MiB a node %d, under load and snapshots %d, after the restart of all %d: %.2f, %.2f and %.2f times the bodies at most",
		mb(q.RSS), mb(q.RSSMost), mb(q.RSSAfter), share(q.RSS), share(q.RSSMost), share(q.RSSAfter))
	fmt.Fprintf(b, "\n     a snapshot holds the state for %.2f ms and is written in %.1f s; W3 beside it: none %.0f/s, a follower's %.0f/s (%.2f), the leader's %.0f/s (%.2f)",
		q.HoldMS, q.WriteS, q.RateNone, q.RateOther, q.RateOther/q.RateNone, q.RateLeader, q.RateLeader/q.RateNone)
	fmt.Fprintf(b, "\n     kill -9: one node back and caught up after %.1f s, all nodes confirm one more after %.1f s; all received after %.0f s more",
		q.OneS, q.AllS, q.DrainS)
}
