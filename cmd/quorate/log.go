package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/cluster/store"
)

func newLog(c *cli) *cobra.Command {
	cmd := &cobra.Command{Use: "log", Short: "Change how a stopped node keeps its log", Args: noSuchVerb, RunE: needsVerb}
	cmd.AddCommand(newLogConvert(c))
	return cmd
}

func newLogConvert(c *cli) *cobra.Command {
	var dir, to string
	cmd := &cobra.Command{
		Use:   "convert --data-dir DIR --to bolt|wal",
		Short: "Make a stopped node's log one of the other log store",
		Long: `Copy the log of a stopped node, with its term and vote, to the other log store, read it back, switch to it and remove the
old one. It can be interrupted at any moment and run again; until it is done the node starts with the log that it had.
It takes as much space as the log, for as long as it lasts. Nothing is said to other nodes: convert one node after the other
while the rest of the cluster works. A node whose raft.log_store is set must be told the new one.`,
		Example: "  quorate log convert --data-dir data/n1 --to wal",
		Args:    cobra.NoArgs,
	}
	cmd.Flags().StringVar(&dir, "data-dir", "", "the node's data directory")
	cmd.Flags().StringVar(&to, "to", "", fmt.Sprintf("%s or %s", store.Bolt, store.WAL))
	cmd.RunE = func(*cobra.Command, []string) error {
		if dir == "" {
			return usagef("--data-dir is missing, want the data directory of a stopped node")
		}
		kind, err := store.ParseKind(to)
		if err != nil || kind == "" {
			return usagef("--to is %q, want %s or %s", to, store.Bolt, store.WAL)
		}
		done, err := store.Convert(dir, kind, nil)
		if err != nil {
			return failed(err)
		}
		removed := ""
		if done.Removed != "" {
			removed = filepath.Base(done.Removed)
		}
		if c.asJSON() {
			return failed(c.json(map[string]any{"data_dir": dir, "from": done.From, "to": done.To, "first": done.First, "last": done.Last,
				"bytes": done.Bytes, "crc32c": fmt.Sprintf("%08x", done.Sum), "removed": removed}))
		}
		if done.From == done.To {
			_, err = fmt.Fprintf(c.stdout, "the log in %s is a %s one already\n", dir, kind)
			return failed(err)
		}
		entries := "no entries"
		if done.Last > 0 {
			entries = fmt.Sprintf("entries %d to %d, %d bytes", done.First, done.Last, done.Bytes)
		}
		_, err = fmt.Fprintf(c.stdout, "the log in %s is a %s one now: %s, term and vote, read back with CRC32C %08x; %s is removed\n",
			dir, kind, entries, done.Sum, removed)
		return failed(err)
	}
	return cmd
}
