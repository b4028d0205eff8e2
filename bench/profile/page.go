package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"github.com/quorate/quorate/bench/load"
)

// report is the workload's part of the page.
func report(o options, res *load.Result, nodes []*node, tallies []tally, before, after []metrics) string {
	var b strings.Builder
	messages := res.Rate * o.cpu.Seconds()
	fmt.Fprintf(&b, "`make profile W=%s SIZE=%d FOR=%s`, commit %s, %s, %d processors, %s:\n\n", o.workload, o.size, o.cpu, o.commit,
		runtime.Version(), runtime.NumCPU(), time.Now().UTC().Format(time.DateOnly))
	fmt.Fprintf(&b, "```\n%s\n%s\n```\n\n", load.Header(), res)
	fmt.Fprintf(&b, "CPU of each node by what it was for, µs a message (the sampled time of %.0f messages):\n\n| |", messages)
	for _, n := range nodes {
		fmt.Fprintf(&b, " %s %s |", n.role, n.Name)
	}
	b.WriteString(" all |\n| --- |" + strings.Repeat(" ---: |", len(nodes)+1) + "\n")
	us := func(d time.Duration) string { return fmt.Sprintf(" %.2f |", float64(d.Microseconds())/messages) }
	line := func(name string, of func(t tally) time.Duration) {
		b.WriteString("| " + name + " |")
		var sum time.Duration
		for _, t := range tallies {
			b.WriteString(us(of(t)))
			sum += of(t)
		}
		b.WriteString(us(sum) + "\n")
	}
	for _, name := range areaNames(tallies...) {
		line(name, func(t tally) time.Duration { return t[name] })
	}
	line("**together**", tally.sum)

	b.WriteString("\nWhat a message waits for, in the mean, ms (and how often a second):\n\n| |")
	for _, n := range nodes {
		fmt.Fprintf(&b, " %s %s |", n.role, n.Name)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" ---: |", len(nodes)) + "\n")
	for _, step := range []struct{ name, series string }{
		{"entry: from its proposal to its application", "quorate_group_commit_seconds"},
		{"log: a durable write, the sync in it", "quorate_raft_log_fsync_seconds"},
		{"state machine: an entry applied and answered", "quorate_group_apply_seconds"},
	} {
		fmt.Fprintf(&b, "| %s |", step.name)
		for i := range nodes {
			v, n := mean(before[i], after[i], step.series)
			fmt.Fprintf(&b, " %.3f (%.0f) |", v*1000, n/o.cpu.Seconds())
		}
		b.WriteString("\n")
	}
	for i, n := range nodes {
		if n.role == "leader" {
			ops, entries := mean(before[i], after[i], "quorate_group_entry_operations")
			bytes, _ := mean(before[i], after[i], "quorate_group_entry_bytes")
			batch, _ := mean(before[i], after[i], "quorate_raft_log_batch_entries")
			fmt.Fprintf(&b, "\nAn entry has %.1f operations and %.0f bytes; the leader writes %.2f entries at once; %.2f entries a message.\n", ops, bytes, batch, entries/messages)
		}
	}
	return b.String()
}

// writePage puts text between the workload's marks of the page, and makes them at its end if there are none.
func writePage(path, workload, text string) error {
	old, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	page, err := replaced(string(old), workload, text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, []byte(page), 0o644)
}

func replaced(page, workload, text string) (string, error) {
	open, end := fmt.Sprintf("<!-- %s -->\n", workload), fmt.Sprintf("<!-- /%s -->\n", workload)
	text = open + text + end
	i, j := strings.Index(page, open), strings.Index(page, end)
	switch {
	case i < 0 && j < 0:
		return page + "\n## " + workload + "\n\n" + text, nil
	case i < 0 || j < i:
		return "", fmt.Errorf("the marks %q and %q are not in order: write both or neither", strings.TrimSpace(open), strings.TrimSpace(end))
	}
	return page[:i] + text + page[j+len(end):], nil
}
