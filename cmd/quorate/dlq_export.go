package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/quorate/quorate/client"
)

func newDLQExport(c *cli) *cobra.Command {
	var filter deadFilter
	var format string
	cmd := &cobra.Command{
		Use:   "export QUEUE",
		Short: "Write dead letters to standard output as CSV or JSON",
		Long: `Write all dead letters of a queue that pass the filters and had died when the command began, with bodies, to standard
output, a page at a time: memory does not grow with their number.

JSON is one array, an object a line, and exact: bodies are base64. CSV is for people and spreadsheets: a cell that a
spreadsheet would take for a formula (it begins with = + - @, a tab or a line break) has ' before it, and a body or key that
is not text is base64, as body_encoding and key_encoding say; JSON has such a key as key_base64.

attempts and max_attempts are those of the queue where it died. What another queue moved here lives on as a message: held says in
what state, held_attempts and held_max_attempts how often it has been delivered here, and how often it may be.`,
		Example: "  quorate dlq export orders --format csv --since 24h > orders.csv\n  quorate dlq export orders --format json | jq length",
		Args:    cobra.ExactArgs(1),
	}
	filter.bind(cmd)
	cmd.Flags().StringVar(&format, "format", "json", "csv or json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o, err := filter.options()
		if err != nil {
			return err
		}
		if format != "csv" && format != "json" {
			return usagef("--format is %q, want csv or json", format)
		}
		return c.with(func(ctx context.Context, cl *client.Client, args []string) error {
			w := bufio.NewWriterSize(c.stdout, 64<<10)
			var to exporter = &jsonExport{w: w}
			if format == "csv" {
				to = &csvExport{w: csv.NewWriter(w)}
			}
			if err := to.begin(); err != nil {
				return err
			}
			begun := false
			err := cl.EachDead(ctx, args[0], o, func(t *client.Task) error {
				begun = true
				return to.one(t)
			})
			if err != nil {
				if begun {
					_ = w.Flush() // what is there is there; the error says that it is not all
				}
				return err
			}
			if err := to.end(); err != nil {
				return err
			}
			return w.Flush()
		})(cmd, args)
	}
	return cmd
}

// exporter writes dead letters one by one.
type exporter interface {
	begin() error
	one(t *client.Task) error
	end() error
}

type jsonExport struct {
	w io.Writer
	n int
}

func (e *jsonExport) begin() error {
	_, err := io.WriteString(e.w, "[")
	return err
}

func (e *jsonExport) one(t *client.Task) error {
	sep := "\n"
	if e.n++; e.n > 1 {
		sep = ",\n"
	}
	b, err := json.Marshal(taskJSON(*t))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(e.w, "%s%s", sep, b)
	return err
}

func (e *jsonExport) end() error {
	_, err := io.WriteString(e.w, "\n]\n")
	return err
}

type csvExport struct {
	w   *csv.Writer
	row []string
}

var csvHead = []string{
	"id", "original_id", "task_id", "queue", "origin", "kind", "reason", "attempts", "redrives", "failed_at", "original_created_at",
	"error_message", "worker", "priority", "content_type", "key", "key_encoding", "headers", "body", "body_encoding",
	"max_attempts", "held", "held_attempts", "held_max_attempts",
}

func (e *csvExport) begin() error { return e.w.Write(csvHead) }

func (e *csvExport) one(t *client.Task) error {
	headers := ""
	if len(t.Headers) > 0 {
		m := map[string]string{}
		for _, h := range t.Headers {
			m[h.Name] = h.Value
		}
		b, err := json.Marshal(m)
		if err != nil {
			return err
		}
		headers = string(b)
	}
	body, encoding := string(t.Body), "text"
	if !utf8.Valid(t.Body) || hasControl(t.Body) {
		body, encoding = base64.StdEncoding.EncodeToString(t.Body), "base64"
	}
	key, keyEncoding := orderingKey(t.Key)
	if hasControl(t.Key) && keyEncoding == "text" {
		key, keyEncoding = base64.StdEncoding.EncodeToString(t.Key), "base64"
	}
	e.row = append(e.row[:0], t.ID, t.OriginalID, t.TaskID, t.Queue, t.Origin, t.Kind, t.Reason, fmt.Sprint(t.Attempts), fmt.Sprint(t.Redrives),
		timestamp(t.EndedAt), timestamp(t.OriginalEnqueuedAt), t.Error, t.Worker, fmt.Sprint(t.Priority), t.ContentType, key, keyEncoding, headers, body, encoding,
		known(t.MaxAttempts), t.Held, "", known(t.HeldMaxAttempts))
	if t.HeldMaxAttempts != 0 {
		e.row[len(e.row)-2] = fmt.Sprint(t.HeldAttempts)
	}
	for i, cell := range e.row {
		e.row[i] = harmless(cell)
	}
	return e.w.Write(e.row)
}

func (e *csvExport) end() error {
	e.w.Flush()
	return e.w.Error()
}

// known is a maximum, nothing where it is not known.
func known(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// harmless makes a cell one that no spreadsheet takes for a formula.
func harmless(cell string) string {
	r, _ := utf8.DecodeRuneInString(cell)
	switch r {
	case '=', '+', '-', '@', '\t', '\r', '\n', '＝', '＋', '－', '＠':
		return "'" + cell
	}
	return cell
}

// hasControl says whether a text has control characters that CSV readers stumble over.
func hasControl(b []byte) bool {
	for _, c := range b {
		if c < 0x20 && c != '\t' && c != '\n' && c != '\r' || c == 0x7f {
			return true
		}
	}
	return false
}
