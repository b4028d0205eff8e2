package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/quorate/quorate/client"
)

// standing is what a turn of Flat has beside the messages that come and go.
type standing struct {
	queued, queues, idle int
}

func (s standing) String() string {
	return fmt.Sprintf("%d queued, %d queues, %d idle", s.queued, s.queues, s.idle)
}

// flat measures W3 by turns with little and with much beside it, beginning and ending with little, so that a machine that changes
// in the course of it does not show as a difference between the two. Each turn has queues of its own, is filled before it
// is measured and emptied after, all of it being accounted for.
func (r *run) flat(ctx context.Context, admin Conn) (*Result, error) {
	cfg := &r.cfg
	sides := [2]standing{{DefaultQueued, 1, 0}, {cfg.Queued, cfg.Queues, cfg.Idle}}
	var turns [2][]*Result
	for i := range 2*cfg.Rounds + 1 {
		res, err := r.beside(ctx, admin, sides[i%2], i)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sides[i%2], err)
		}
		turns[i%2] = append(turns[i%2], res)
	}
	var all Result
	var rate, cpu [2]float64
	for i, results := range turns {
		p := Part{Name: sides[i].String()}
		for _, res := range results {
			all.add(res)
			p.Messages += res.Messages
			p.Left = append(p.Left, res.left)
			p.Runs = append(p.Runs, res.Rate)
			if res.ServerCPU != nil {
				p.CPU = append(p.CPU, *res.ServerCPU)
			}
		}
		p.Rate = mid(p.Runs)
		rate[i] = p.Rate
		if len(p.CPU) > 0 {
			cpu[i] = mid(p.CPU)
		}
		all.Parts = append(all.Parts, p)
	}
	slices.SortStableFunc(turns[1], func(a, b *Result) int { return cmp.Compare(a.Rate, b.Rate) })
	res := *turns[1][(len(turns[1])-1)/2]
	res.Errors, res.Unknown, res.Recovered, res.Lost, res.Duplicates, res.Unexpected = 0, 0, 0, 0, 0, 0
	res.Samples = nil
	res.add(&all)
	res.Parts, res.Ratio = all.Parts, rate[1]/rate[0]
	if cpu[0] > 0 {
		res.RatioCPU = cpu[1] / cpu[0]
	}
	return &res, nil
}

// mid is the median, of an even number the mean of the two: there is one more turn with little than with much, and of two
// the lower one would favour a side.
func mid(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// beside is one turn: a run of its own.
func (r *run) beside(ctx context.Context, admin Conn, st standing, turn int) (*Result, error) {
	cfg := r.cfg
	cfg.Queue = fmt.Sprintf("%s.%d", r.cfg.Queue, turn)
	cfg.Backlog += st.queued
	cfg.Confirms = new(Gap)
	s := newRun(cfg, r.fatal)
	if st.queues > 1 {
		s.queues = s.queues[:0]
		for i := range st.queues {
			s.queues = append(s.queues, fmt.Sprintf("%s.%d", cfg.Queue, i))
		}
	}
	quiet := cfg.Queue + ".idle"
	all := slices.Clone(s.queues)
	if st.idle > 0 {
		all = append(all, quiet)
	}
	defer s.dropQueues(ctx, admin, all...)
	create := func(i int) error {
		if err := admin.CreateQueue(ctx, all[i], client.QueueOptions{}); err != nil {
			return fmt.Errorf("create queue %s: %w", all[i], err)
		}
		return nil
	}
	if err := each(len(all), create); err != nil {
		return nil, err
	}
	idle, err := s.openAll(ctx, "idle", st.idle)
	if err != nil {
		return nil, err
	}
	defer closeAll(idle)
	err = each(len(idle), func(i int) error {
		_, err := idle[i].Subscribe(ctx, quiet, cfg.Window, func(*client.Delivery) {
			s.fatal(fmt.Errorf("a message came in queue %s, to which none was sent", quiet))
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe an idle connection: %w", err)
	}
	if err := s.preload(ctx, st.queued); err != nil {
		return nil, err
	}
	res, err := s.load(ctx)
	if err != nil {
		return nil, err
	}
	if res.Messages == 0 && res.OK() {
		return nil, errors.New("no message was done with in the measured time: measure longer")
	}
	res.EndToEnd = nil // of what waited since before
	return res, nil
}
