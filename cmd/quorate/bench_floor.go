package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/bench/load"
	"github.com/quorate/quorate/bench/proc"
	"github.com/quorate/quorate/cluster/floor"
	"github.com/quorate/quorate/cluster/store"
)

// The nodes of `bench floor` are processes of this binary, as those of the other workloads are. Each is told what to do
// on its standard input and answers on its standard output, a line of JSON each; the end of its input is the end of it.

// floorOrder is one order; the first field that is set counts.
type floorOrder struct {
	Found []floor.Member `json:"found,omitempty"` // make the group
	Leads bool           `json:"leads,omitempty"` // say whether you lead
	Run   *floorRun      `json:"run,omitempty"`   // for who leads
}

type floorRun struct {
	Size   int           `json:"size"`
	For    time.Duration `json:"for"`
	WarmUp time.Duration `json:"warm_up"`
	Rate   float64       `json:"rate"`
	Out    int           `json:"outstanding"`
	Pids   []int         `json:"pids"` // of all nodes
}

type floorAnswer struct {
	Error  string        `json:"error,omitempty"`
	Member *floor.Member `json:"member,omitempty"` // the first line, before any order
	Leads  bool          `json:"leads,omitempty"`
	Result *load.Result  `json:"result,omitempty"`
}

const (
	// floorAnswerBytes bounds an answer's line.
	floorAnswerBytes = 1 << 20
	// floorStart bounds how long nodes take to start, and to have a leader.
	floorStart = 30 * time.Second
)

// newFloorNode is the verb of a node's process. It is not for people.
func newFloorNode(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:    "floor-node DIR LABEL CLUSTER LOGSTORE",
		Short:  "A node of bench floor, which starts it",
		Hidden: true,
		Args:   cobra.ExactArgs(4),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			id, err := store.ParseUUID(args[2])
			if err != nil {
				return usagef("%v", err)
			}
			kind, err := store.ParseKind(args[3])
			if err != nil {
				return usagef("%v", err)
			}
			broken := make(chan error, 1)
			n, err := floor.Open(args[0], args[1], id, "127.0.0.1:0", kind, func(err error) { broken <- err })
			if err != nil {
				return failed(err)
			}
			defer func() { err = errors.Join(err, failed(n.Close())) }()
			answers := json.NewEncoder(c.stdout)
			m := n.Member()
			if err := answers.Encode(floorAnswer{Member: &m}); err != nil {
				return failed(err)
			}
			done := make(chan error, 1)
			ctx, cancel := context.WithCancel(cmd.Context())
			defer cancel()
			go func() { done <- obeyFloor(ctx, n, json.NewDecoder(c.stdin), answers) }()
			select {
			case err := <-done:
				return failed(err)
			case err := <-broken:
				return failed(err)
			}
		},
	}
}

// obeyFloor carries out orders until there are no more.
func obeyFloor(ctx context.Context, n *floor.Node, orders *json.Decoder, answers *json.Encoder) error {
	for {
		var o floorOrder
		if err := orders.Decode(&o); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read an order: %w", err)
		}
		var a floorAnswer
		var err error
		switch {
		case o.Found != nil:
			err = n.Found(o.Found)
		case o.Leads:
			wait, cancel := context.WithTimeout(ctx, floorStart)
			a.Leads, err = n.Leads(wait)
			cancel()
		case o.Run != nil:
			cfg := load.FloorConfig{Nodes: len(o.Run.Pids), Size: o.Run.Size, For: o.Run.For, WarmUp: o.Run.WarmUp, Rate: o.Run.Rate, Outstanding: o.Run.Out}
			if cfg.ServerCPU, err = load.CPUOf(o.Run.Pids...); err == nil {
				a.Result, err = load.RunFloor(ctx, cfg, n.Apply)
			}
		default:
			err = errors.New("an order without content")
		}
		if err != nil {
			a.Error = err.Error()
		}
		if err := answers.Encode(a); err != nil {
			return fmt.Errorf("answer an order: %w", err)
		}
	}
}

// floorProcess is one of the nodes.
type floorProcess struct {
	label string
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Scanner
	log   string

	release func() // when it has ended
}

// startFloorProcess starts one with its folder below dir.
func startFloorProcess(dir, label string, cluster store.UUID, logs store.Kind) (_ *floorProcess, err error) {
	binary, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this binary: %w", err)
	}
	p := &floorProcess{label: label, log: filepath.Join(dir, label+".log")}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(binary, "floor-node", filepath.Join(dir, label), label, cluster.String(), string(logs))
	p.cmd.Env = append(os.Environ(), "GOMAXPROCS=1") // as the nodes of the other workloads
	p.cmd.Stderr = log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.out = bufio.NewScanner(out)
	p.out.Buffer(nil, floorAnswerBytes)
	if p.release, err = proc.StartBound(p.cmd); err != nil {
		return nil, fmt.Errorf("start node %s: %w", label, err)
	}
	return p, nil
}

// order gives an order (nil: none) and waits for its answer. The end of ctx ends the process.
func (p *floorProcess) order(ctx context.Context, o *floorOrder) (a floorAnswer, err error) {
	stop := context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })
	defer stop()
	if o != nil {
		b, err := json.Marshal(o)
		if err != nil {
			return a, err
		}
		if _, err := p.in.Write(append(b, '\n')); err != nil {
			return a, p.ended(ctx, err)
		}
	}
	if !p.out.Scan() {
		return a, p.ended(ctx, cmp.Or(p.out.Err(), io.EOF))
	}
	if err := json.Unmarshal(p.out.Bytes(), &a); err != nil {
		return a, fmt.Errorf("node %s answered what is no JSON: %w", p.label, err)
	}
	if a.Error != "" {
		return a, fmt.Errorf("node %s: %s", p.label, a.Error)
	}
	return a, nil
}

func (p *floorProcess) ended(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	said, _ := os.ReadFile(p.log) // the reason, if it has given one
	return fmt.Errorf("node %s ended: %w %s", p.label, err, said[:min(len(said), 1024)])
}

// stop ends the process and waits for it.
func (p *floorProcess) stop() error {
	_ = p.in.Close()
	kill := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	defer kill.Stop()
	defer p.release()
	if err := p.cmd.Wait(); err != nil {
		return fmt.Errorf("node %s: %w", p.label, err)
	}
	return nil
}

// benchFloor starts nodes, runs on the one that leads, and removes them. The median of the runs by confirmation latency is
// returned.
func (c *cli) benchFloor(ctx context.Context, nodes, repeat int, data string, logs store.Kind, run floorRun) (_ *load.Result, err error) {
	dir, err := load.TempDir(data)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	var all []*floorProcess
	defer func() {
		for _, p := range all {
			if stopErr := p.stop(); err == nil {
				err = stopErr
			}
		}
	}()
	cluster := store.NewUUID()
	starting, cancel := context.WithTimeout(ctx, floorStart)
	defer cancel()
	var found floorOrder
	for i := range nodes {
		p, err := startFloorProcess(dir, fmt.Sprintf("n%d", i+1), cluster, logs)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
		run.Pids = append(run.Pids, p.cmd.Process.Pid)
	}
	for _, p := range all {
		a, err := p.order(starting, nil)
		if err != nil {
			return nil, err
		}
		found.Found = append(found.Found, *a.Member)
	}
	for _, p := range all {
		if _, err := p.order(starting, &found); err != nil {
			return nil, err
		}
	}
	var leader *floorProcess
	for leader == nil { // each waits for a leader; whoever was asked before it was elected is asked again
		for _, p := range all {
			a, err := p.order(starting, &floorOrder{Leads: true})
			if err != nil {
				return nil, err
			}
			if a.Leads {
				leader = p
			}
		}
	}
	var results []*load.Result
	for range repeat {
		a, err := leader.order(ctx, &floorOrder{Run: &run})
		if err != nil {
			return nil, err
		}
		results = append(results, a.Result)
	}
	slices.SortStableFunc(results, func(a, b *load.Result) int { return cmp.Compare(a.Confirm.P50, b.Confirm.P50) })
	return results[(len(results)-1)/2], nil
}
