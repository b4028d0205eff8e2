package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

// recordedJSON is the JSON of a result in a list or stream; times are Unix milliseconds, the output base64.
func recordedJSON(r *client.Recorded) map[string]any {
	m := resultJSON(&r.Result, "succeeded", true)
	m["position"], m["ends_at"] = r.Position, stamp(r.EndsAt)
	if r.Result.MessageID != "" {
		m["id"] = r.Result.MessageID
	}
	return m
}

var recordedHead = []string{"POSITION", "TASK", "KIND", "RECORDED", "ATTEMPTS", "DURATION", "OUTPUT"}

func recordedRow(r *client.Recorded) []string {
	return []string{
		fmt.Sprint(r.Position), r.Result.TaskID, r.Result.Kind, timestamp(r.Result.RecordedAt), fmt.Sprint(r.Result.Attempts),
		r.Result.Duration.String(), excerpt(r.Result.Output),
	}
}

func newResultList(c *cli) *cobra.Command {
	var o client.ResultsOptions
	var limit int
	cmd := &cobra.Command{
		Use:   "list QUEUE",
		Short: "List a queue's results in the order of recording",
		Long: `List the results that a queue keeps, oldest first. Each has a position; --after goes on behind one. A position that is
older than what is kept is the beginning.`,
		Example: "  quorate result list thumbnails --kind resize --after 4711",
		Args:    cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&o.Kind, "kind", "", "only this task type")
	f.Uint64Var(&o.After, "after", 0, "only those behind this position")
	f.IntVar(&limit, "limit", 100, "how many; 0 is all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit < 0 {
			return usagef("--limit is %d, want 0 or more", limit)
		}
		return c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			var rows [][]string
			all := []map[string]any{}
			left := limit
			for more := true; more; {
				o.Limit = 1000
				if limit > 0 {
					o.Limit = min(left, 1000)
				}
				rs, next, further, err := cl.ListResults(ctx, args[0], o)
				if err != nil {
					return err
				}
				for i := range rs {
					if c.asJSON() {
						all = append(all, recordedJSON(&rs[i]))
					} else {
						rows = append(rows, recordedRow(&rs[i]))
					}
				}
				left -= len(rs)
				o.After, more = next, further && (limit == 0 || left > 0)
			}
			if c.asJSON() {
				return c.json(all)
			}
			return c.table(recordedHead, rows)
		})(cmd, args)
	}
	return cmd
}

func newResultStream(c *cli) *cobra.Command {
	var o client.ResultsOptions
	cmd := &cobra.Command{
		Use:   "stream QUEUE",
		Short: "Print a queue's results as they are recorded",
		Long: `Print the results that a queue keeps, oldest first, and then each new one as it is recorded, until it is ended by Ctrl-C.
It goes on through changes of leader, leaves none out and prints none twice. With -o json each result is one line.

To go on later, give the last position printed as --after.`,
		Example: "  quorate result stream thumbnails --new -o json | jq -r .task_id",
		Args:    cobra.ExactArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&o.Kind, "kind", "", "only this task type")
	f.Uint64Var(&o.After, "after", 0, "begin behind this position")
	f.BoolVar(&o.New, "new", false, "begin with what is recorded from now on")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.New && o.After != 0 {
			return usagef("give only one of --after and --new")
		}
		return c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			err := cl.StreamResults(ctx, args[0], o, func(r client.Recorded) error {
				if c.asJSON() {
					return c.jsonLine(recordedJSON(&r))
				}
				row := recordedRow(&r)
				_, err := fmt.Fprintf(c.stdout, "%s  %s  %s  %s\n", row[0], printable(row[1]), row[3], printable(row[6]))
				return err
			})
			if ctx.Err() != nil {
				return nil // ended by hand
			}
			return err
		})(cmd, args)
	}
	return cmd
}
