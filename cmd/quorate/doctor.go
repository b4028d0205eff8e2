package main

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cluster/doctor"
	"github.com/quorate/quorate/transport"
)

// checkTime bounds all checks together.
const checkTime = 30 * time.Second

func newDoctor(c *cli) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check a node before or after its start, and say what to do",
		Long: `Check configuration, data directory, identity, disk sync latency, ports, clock and peers of the node that the same
flags and file would start with serve. Nothing is changed. Ends with 1 if something is bad.`,
		Args: cobra.NoArgs,
	}
	fl := cmd.Flags()
	fl.StringVar(&file, "config", "", "quorate.toml")
	bindSettings(fl)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := resolve(file, fl, os.LookupEnv)
		if err != nil {
			return usagef("%v", err)
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), checkTime)
		defer cancel()
		node := cfg.node()
		node.Version = version
		node.ClientAddr = cfg.Client.Addr // where serve listens, not what is told to others
		found := doctor.Examine(ctx, node)
		for _, a := range []string{cfg.Client.Addr, cfg.Raft.Addr, cfg.Gossip.Addr} {
			if err := transport.RefuseOffLoopback(a); err != nil {
				found = append(found, doctor.Finding{Check: "ports", Level: doctor.Bad, What: err.Error(), Do: "use a loopback address"})
			}
		}
		if c.asJSON() {
			err = c.json(found)
		} else {
			rows := make([][]string, 0, len(found))
			for _, f := range found {
				rows = append(rows, []string{string(f.Level), f.Check, f.What, f.Do})
			}
			err = c.table([]string{"", "CHECK", "FOUND", "DO"}, rows)
		}
		if err == nil && doctor.Worst(found) == doctor.Bad {
			err = errors.New("something is bad")
		}
		return failed(err)
	}
	return cmd
}
