package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cluster"
	"github.com/quorate/quorate/transport"
	"github.com/quorate/quorate/transport/hook"
	"github.com/quorate/quorate/transport/spans"
)

// stopTime bounds an orderly stop; after it the process ends anyway, which loses nothing.
const stopTime = 8 * time.Second

func newServe(c *cli) *cobra.Command {
	var file string
	var printConfig bool
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run a cluster node",
		Long: `Run a cluster node until SIGTERM or Ctrl-C. Every key of quorate.toml is also a flag and an environment variable;
flag over environment over file over default.

There is no authentication and no TLS yet, so every address must be a loopback one.`,
		Example: "  quorate serve --config quorate.toml\n" +
			"  quorate serve --node-id n1 --gossip-bootstrap-expect 3 --gossip-join 127.0.0.1:7352,127.0.0.1:7362",
		Args: cobra.NoArgs,
	}
	fl := cmd.Flags()
	fl.StringVar(&file, "config", "", "quorate.toml")
	fl.BoolVar(&printConfig, "print-config", false, "show every value and where it comes from, and exit")
	bindSettings(fl)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := resolve(file, fl, os.LookupEnv)
		if err != nil {
			return usagef("%v", err)
		}
		if printConfig {
			cfg.print(c)
			return nil
		}
		for _, a := range []string{cfg.Client.Addr, cfg.Raft.Addr, cfg.Gossip.Addr} {
			if err := transport.RefuseOffLoopback(a); err != nil {
				return usagef("%v", err)
			}
		}
		hooks, secrets, err := cfg.hooks(os.LookupEnv)
		if err != nil {
			return usagef("%v", err)
		}
		pushed, err := cfg.push(os.LookupEnv)
		if err != nil {
			return usagef("%v", err)
		}
		log, err := c.logger(cfg.Log.Level)
		if err != nil {
			return err
		}
		return failed(serve(cmd.Context(), log, cfg.node(), doorways{
			addr: cfg.Client.Addr, noAutoCreate: !cfg.AutoCreate, maxConnections: int(cfg.Limits.MaxConnections), maxStreams: int(cfg.Limits.MaxStreams), origins: cfg.Client.CORSOrigins,
			declared: &declarations{queues: cfg.Queues, schedules: cfg.Schedules}, hooks: hooks, secrets: secrets, push: pushed,
			traces: cfg.Trace.Endpoint, access: cfg.Log.Access, slowOver: time.Duration(cfg.Log.SlowMillis) * time.Millisecond,
		}))
	}
	return cmd
}

// node is the part of the configuration that a node is started with.
func (r *resolved) node() cluster.Config {
	return cluster.Config{
		NodeID: r.NodeID, DataDir: r.DataDir,
		RaftAddr: r.Raft.Addr, RaftAdvertise: r.Raft.Advertise, LogStore: r.Raft.LogStore,
		GossipAddr: r.Gossip.Addr, GossipAdvertise: r.Gossip.Advertise,
		Join: r.Gossip.Join, BootstrapExpect: int(r.Gossip.BootstrapExpect),
		ClientAddr: r.Client.Advertise, MaxMessageBytes: r.Limits.MaxMessageBytes,
		MemoryBytes: memoryLimit(r.Limits.MemoryBytes), DiskFreeBytes: r.Limits.DiskFreeBytes,
	}
}

func newDev(c *cli) *cobra.Command {
	var addr, level string
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run one node in memory, for development",
		Long:  "Run one node with everything in memory: the same code as a cluster, ready at once, and gone when it ends.",
		Args:  cobra.NoArgs,
	}
	cmd.Flags().StringVar(&addr, "client-addr", defaultAddr, "address for clients")
	cmd.Flags().StringVar(&level, "log-level", "warn", "debug, info, warn or error")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		log, err := c.logger(level)
		if err != nil {
			return err
		}
		if err := hostPort(&addr); err != nil {
			return usagef("--client-addr: %v", err)
		}
		if err := transport.RefuseOffLoopback(addr); err != nil {
			return usagef("%v", err)
		}
		fmt.Fprintf(c.stderr, "quorate %s, one node in memory: what it holds is gone when it ends. Clients: %s\n", version, addr)
		return failed(serve(cmd.Context(), log, cluster.Config{NodeID: "dev", BootstrapExpect: 1, MaxMessageBytes: 1 << 20, MemoryBytes: memoryLimit(0)}, doorways{addr: addr, maxConnections: 1000, declared: &declarations{}, push: pushing{allow: loopback}}))
	}
	return cmd
}

func (c *cli) logger(level string) (*slog.Logger, error) {
	l, err := levelOf(level)
	if err != nil {
		return nil, usagef("--log-level: %w", err)
	}
	return slog.New(slog.NewTextHandler(c.stderr, &slog.HandlerOptions{Level: l})), nil
}

// doorways is what a node's doors are made of.
type doorways struct {
	addr           string
	noAutoCreate   bool
	maxConnections int
	maxStreams     int
	origins        []string
	declared       *declarations
	hooks          []hook.Hook
	secrets        map[string][][]byte
	push           pushing
	traces         string        // where spans go; "": nowhere, and there are none
	access         bool          // log what comes through them
	slowOver       time.Duration // and operations that take longer; 0: none
}

// recorder makes spans where they have somewhere to go; without an endpoint it is nil.
func (d *doorways) recorder(cfg cluster.Config) (r *spans.Recorder, err error) {
	if d.traces != "" {
		r, err = spans.New(spans.Config{Endpoint: d.traces, Node: cfg.NodeID, Version: cfg.Version, Logger: cfg.Logger, Registry: cfg.Registry})
	}
	return r, err
}

// spansTime is how long a stop waits for the collector to take the last spans.
const spansTime = time.Second

func closeRecorder(ctx context.Context, log *slog.Logger, r *spans.Recorder) {
	if r == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), spansTime)
	defer cancel()
	if err := r.Close(ctx); err != nil {
		log.Warn("spans lost at the end", "err", err)
	}
}

// serve runs a node and its doors until ctx ends, then stops them in order: doors closing, leadership away, raft and
// stores, HTTP last.
func serve(ctx context.Context, log *slog.Logger, cfg cluster.Config, d doorways) (err error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", d.addr)
	if err != nil {
		return fmt.Errorf("client address %s: %w; another process may have the port: choose another with --client-addr", d.addr, err)
	}
	defer l.Close()
	if cfg.ClientAddr == "" {
		cfg.ClientAddr = l.Addr().String()
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(goCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	cfg.Version, cfg.Logger, cfg.Registry = version, log, reg
	recorder, err := d.recorder(cfg)
	if err != nil {
		return err
	}
	defer closeRecorder(ctx, log, recorder)
	hooks, err := newHooked(d.hooks, d.secrets, cfg.MaxMessageBytes, reg, log, recorder)
	if err != nil {
		return err
	}
	node, err := cluster.Start(ctx, cfg)
	if err != nil {
		return err
	}
	mappers, err := newMapped(node, cfg, l.Addr().String())
	if err != nil {
		return errors.Join(err, node.Stop(context.WithoutCancel(ctx)))
	}
	pusher, err := newPushed(node, d.push, cfg, l.Addr().String(), mappers.Count)
	if err != nil {
		return errors.Join(err, node.Stop(context.WithoutCancel(ctx)))
	}
	var access *slog.Logger
	if d.access {
		access = log.With("component", "access")
	}
	doors, err := transport.New(transport.Config{AccessLog: access, SlowOver: d.slowOver, Spans: recorder, Broker: transport.NodeBroker(node), Registry: reg, Logger: log, Version: version, Debug: debugHandler(node),
		Hooks: hooks.handler(), PushState: pusher.State, MappingState: mappers.State, MaxMessageBytes: cfg.MaxMessageBytes, MaxConnections: d.maxConnections, MaxStreams: d.maxStreams, NoAutoCreate: d.noAutoCreate, Origins: d.origins})
	if err != nil {
		return errors.Join(err, node.Stop(context.WithoutCancel(ctx)))
	}
	served := make(chan error, 1)
	go func() { served <- doors.Serve(l) }()
	kctx, unkeep := context.WithCancel(ctx)
	bounded := make(chan struct{})
	go func() {
		defer close(bounded)
		boundGarbage(kctx)
	}()
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		d.declared.keep(kctx, log, l.Addr().String(), func() bool { return node.Group(0).Status().Leader })
	}()
	hooks.start(kctx, log, l.Addr().String())
	pusher.start(kctx)
	mappers.start(kctx)
	select {
	case err = <-served:
	case <-ctx.Done():
		log.Info("stopping")
	}
	unkeep()
	<-kept
	<-bounded
	mappers.stop(context.WithoutCancel(ctx))
	pusher.stop(context.WithoutCancel(ctx)) // while there is still a leader to give its messages back to
	sctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
	defer cancel()
	hooks.drain()
	doors.Drain()
	return errors.Join(err, node.Stop(sctx), doors.Stop(sctx), hooks.stop(sctx))
}
