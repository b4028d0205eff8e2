package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

func newKV(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "kv",
		Short: "Read, list, delete and watch what undelivered messages left behind",
		Long: `A message enqueued with --key-if-undelivered leaves its body under these keys if it dies. A key is a list of
strings, written with slashes between them (orders/17/body) or, where a string has a slash itself, as JSON
(["orders","17/3"]). Keys end 30 days after their last change.`,
		Args: noSuchVerb, RunE: needsVerb,
	}
	cmd.AddCommand(newKVGet(c), newKVList(c), newKVDelete(c), newKVWatch(c))
	return cmd
}

// parseKey reads a key: strings joined by slashes, or a JSON array of them.
func parseKey(s string) (client.Key, error) {
	if strings.HasPrefix(s, "[") {
		var k client.Key
		if err := json.Unmarshal([]byte(s), &k); err != nil {
			return nil, fmt.Errorf("%q begins like JSON and is no array of strings: %w", s, err)
		}
		return k, nil
	}
	if s == "" {
		return nil, errors.New("the key is empty, want its strings joined by slashes, or a JSON array of them")
	}
	return strings.Split(s, "/"), nil
}

// keyText is the way back: what parseKey reads as the same key.
func keyText(k client.Key) string {
	plain := true
	for _, s := range k {
		plain = plain && !strings.Contains(s, "/")
	}
	if joined := strings.Join(k, "/"); plain && joined != "" && !strings.HasPrefix(joined, "[") {
		return joined
	}
	b, err := json.Marshal(k)
	if err != nil { // strings always marshal
		return fmt.Sprintf("%q", []string(k))
	}
	return string(b)
}

// prefixArg is the key of an optional argument.
func prefixArg(args []string) (client.Key, error) {
	if len(args) == 0 {
		return nil, nil
	}
	k, err := parseKey(args[0])
	if err != nil {
		return nil, usagef("%v", err)
	}
	return k, nil
}

func entryJSON(e *client.KVEntry, value bool) map[string]any {
	m := map[string]any{"key": []string(e.Key), "position": e.Position, "changed_at": stamp(e.ChangedAt)}
	if e.Deleted {
		m["deleted"], m["expired"] = true, e.Expired
		return m
	}
	m["message_id"], m["ends_at"], m["value_bytes"] = e.MessageID, stamp(e.EndsAt), e.ValueBytes
	if value {
		v := e.Value
		if v == nil {
			v = []byte{}
		}
		m["value"] = v
	}
	return m
}

func newKVGet(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:     "get KEY",
		Short:   "Print a value as it is; with -o json, what is known of it",
		Example: "  quorate kv get orders/17",
		Args:    cobra.ExactArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			key, err := prefixArg(args)
			if err != nil {
				return err
			}
			e, err := cl.KVGet(ctx, key)
			if err != nil {
				return err
			}
			if c.asJSON() {
				return c.json(entryJSON(&e, true))
			}
			_, err = c.stdout.Write(e.Value)
			return err
		}),
	}
}

// eachKey calls f for pages of keys under a prefix, at most limit keys (0: all).
func eachKey(ctx context.Context, cl *client.Client, prefix client.Key, o client.KVListOptions, limit int, f func(client.KVPage) error) error {
	for left := limit; ; {
		o.Limit = 1000
		if limit > 0 {
			o.Limit = min(left, 1000)
		}
		p, err := cl.KVList(ctx, prefix, o)
		if err != nil {
			return err
		}
		if err := f(p); err != nil {
			return err
		}
		left -= len(p.Entries)
		if p.Next == nil || limit > 0 && left <= 0 {
			return nil
		}
		o.After = p.Next
	}
}

func newKVList(c *cli) *cobra.Command {
	var limit int
	var values bool
	cmd := &cobra.Command{
		Use:     "list [PREFIX]",
		Short:   "List keys, in order; PREFIX is the first strings of the keys wanted",
		Example: "  quorate kv list\n  quorate kv list orders",
		Args:    cobra.MaximumNArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			prefix, err := prefixArg(args)
			if err != nil {
				return err
			}
			if limit < 0 {
				return usagef("--limit is %d, want 0 or more", limit)
			}
			var all []map[string]any
			var rows [][]string
			err = eachKey(ctx, cl, prefix, client.KVListOptions{Values: values}, limit, func(p client.KVPage) error {
				for i := range p.Entries {
					e := &p.Entries[i]
					if c.asJSON() {
						all = append(all, entryJSON(e, values))
						continue
					}
					row := []string{keyText(e.Key), fmt.Sprint(e.ValueBytes), timestamp(e.ChangedAt), timestamp(e.EndsAt), e.MessageID}
					if values {
						row = append(row, excerpt(e.Value))
					}
					rows = append(rows, row)
				}
				return nil
			})
			if err != nil {
				return err
			}
			if c.asJSON() {
				return c.json(append([]map[string]any{}, all...))
			}
			head := []string{"KEY", "BYTES", "CHANGED", "ENDS", "MESSAGE"}
			if values {
				head = append(head, "VALUE")
			}
			return c.table(head, rows)
		}),
	}
	cmd.Flags().IntVar(&limit, "limit", 100, "how many; 0 is all")
	cmd.Flags().BoolVar(&values, "values", false, "with values (in the table, their beginning)")
	return cmd
}

func newKVDelete(c *cli) *cobra.Command {
	var prefix bool
	cmd := &cobra.Command{
		Use:     "delete KEY…",
		Short:   "Delete keys; with --prefix, all that begin with the strings of each KEY",
		Example: "  quorate kv delete orders/17\n  quorate kv delete --prefix orders",
		Args:    cobra.MinimumNArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			for _, arg := range args {
				key, err := prefixArg([]string{arg})
				if err != nil {
					return err
				}
				if !prefix {
					if err := c.deleteKey(ctx, cl, key); err != nil {
						return err
					}
					continue
				}
				err = eachKey(ctx, cl, key, client.KVListOptions{}, 0, func(p client.KVPage) error {
					for i := range p.Entries {
						// One that went meanwhile is as good as deleted.
						if err := c.deleteKey(ctx, cl, p.Entries[i].Key); err != nil && !errors.Is(err, client.ErrNotFound) {
							return err
						}
					}
					return nil
				})
				if err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&prefix, "prefix", false, "every key that begins with these strings")
	return cmd
}

func (c *cli) deleteKey(ctx context.Context, cl *client.Client, key client.Key) error {
	if err := cl.KVDelete(ctx, key); err != nil {
		return err
	}
	if c.asJSON() {
		return c.jsonLine(map[string]any{"key": []string(key), "deleted": true})
	}
	fmt.Fprintf(c.stdout, "%s deleted\n", printable(keyText(key)))
	return nil
}

func newKVWatch(c *cli) *cobra.Command {
	var from int64
	var limit int
	cmd := &cobra.Command{
		Use:   "watch [PREFIX]",
		Short: "Print changes as they come, one a line, until interrupted",
		Long: `Print the changes of keys under PREFIX as they come, one a line. Each line has the position of the change: --from
with it goes on behind it, and --from 0 begins with what is there. A key that changed more than once meanwhile shows its
last change alone. Deletions are kept for an hour, 10,000 of them: from a position before that the watch fails, and the
way to go on is to list and watch from 0 or from now.`,
		Example: "  quorate kv watch orders\n  quorate kv watch --from 0 -o json",
		Args:    cobra.MaximumNArgs(1),
		RunE: c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			prefix, err := prefixArg(args)
			if err != nil {
				return err
			}
			if from < -1 || limit < 0 {
				return usagef("--from is %d and --limit %d, want a position or -1, and 0 or more", from, limit)
			}
			at := client.KVWatchNow
			if from >= 0 {
				at = uint64(from)
			}
			n := 0
			for e, err := range cl.KVWatch(ctx, prefix, at) {
				if ctx.Err() != nil { // interrupted: that is how it ends
					return nil
				}
				if err != nil {
					return err
				}
				if err := c.printChange(&e); err != nil {
					return err
				}
				if n++; n == limit {
					return nil
				}
			}
			return nil
		}),
	}
	cmd.Flags().Int64Var(&from, "from", -1, "position to go on from; 0 is the first, -1 is now")
	cmd.Flags().IntVar(&limit, "limit", 0, "end after so many changes; 0 is never")
	return cmd
}

func (c *cli) printChange(e *client.KVEntry) error {
	if c.asJSON() {
		return c.jsonLine(entryJSON(e, true))
	}
	what := "set\t" + printable(excerpt(e.Value))
	switch {
	case e.Expired:
		what = "expired"
	case e.Deleted:
		what = "deleted"
	}
	_, err := fmt.Fprintf(c.stdout, "%d\t%s\t%s\n", e.Position, printable(keyText(e.Key)), what)
	return err
}
