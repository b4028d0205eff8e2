package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// json prints v as one indented JSON document.
func (c *cli) json(v any) error {
	e := json.NewEncoder(c.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// jsonLine prints v as one line of JSON.
func (c *cli) jsonLine(v any) error {
	e := json.NewEncoder(c.stdout)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

func (c *cli) asJSON() bool { return c.output == "json" }

// table prints rows below a head, columns aligned. Cells are escaped so that what a producer wrote cannot move the
// cursor or fake a row.
func (c *cli) table(head []string, rows [][]string) error {
	w := tabwriter.NewWriter(c.stdout, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, strings.Join(head, "\t"))
	for _, r := range rows {
		for i, cell := range r {
			r[i] = printable(cell)
		}
		fmt.Fprintln(w, strings.Join(r, "\t"))
	}
	return w.Flush()
}

// fields prints name and value pairs, one a line.
func (c *cli) fields(pairs ...string) error {
	w := tabwriter.NewWriter(c.stdout, 0, 4, 2, ' ', 0)
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			fmt.Fprintf(w, "%s\t%s\n", pairs[i], printable(pairs[i+1]))
		}
	}
	return w.Flush()
}

// linesOf are the pairs that show JSON as it was written, its lines below each other in the second column. Tabs and carriage
// returns, which JSON has only between its tokens, would move the columns.
func linesOf(name, text string) (pairs []string) {
	for line := range strings.Lines(text) {
		line = strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    ")
		if strings.TrimSpace(line) == "" {
			continue
		}
		pairs = append(pairs, name, line)
		name = ""
	}
	return pairs
}

// printable escapes control characters.
func printable(s string) string {
	for _, r := range s {
		if r < 0x20 || r == 0x7f || r == 0xfffd || r >= 0x80 && r < 0xa0 {
			q := strconv.Quote(s)
			return q[1 : len(q)-1]
		}
	}
	return s
}

// when prints Unix milliseconds, empty for 0.
func when(ms int64) string {
	if ms == 0 {
		return ""
	}
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// count prints a number, empty for 0.
func count[T int | int32 | int64 | uint64](n T) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// done prints plain success.
func (c *cli) done(text string) error {
	if c.asJSON() {
		return c.json(map[string]any{"ok": true})
	}
	fmt.Fprintln(c.stdout, text)
	return nil
}

// terminal says whether standard output is one.
func (c *cli) terminal() bool {
	f, ok := underlying(c.stdout).(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// deleted prints how many records a purge removed.
func (c *cli) deleted(n int64) error {
	if c.asJSON() {
		return c.json(map[string]any{"deleted_count": n})
	}
	fmt.Fprintf(c.stdout, "%d removed\n", n)
	return nil
}
