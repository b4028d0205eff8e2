// Command recheck judges a history that was kept (go test ./bench/chaos -run TestHistory -history-keep DIR) once more:
//
//	go run ./bench/chaos/history/recheck DIR
//
// It prints the report and ends with 1 where something is broken.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/quorate/quorate/bench/chaos/history"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: recheck DIR, where DIR has events.jsonl and effects.jsonl")
		os.Exit(2)
	}
	if err := run(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "recheck:", err)
		os.Exit(1)
	}
}

func run(dir string) error {
	h := &history.History{}
	f, err := os.Open(filepath.Join(dir, "events.jsonl"))
	if err != nil {
		return err
	}
	defer f.Close()
	if h.Events, err = history.ReadEvents(f); err != nil {
		return err
	}
	g, err := os.Open(filepath.Join(dir, "effects.jsonl"))
	if err != nil {
		return err
	}
	defer g.Close()
	if h.Effects, err = history.ReadEffects(g); err != nil {
		return err
	}
	r := history.Check(h, history.Config{})
	if _, err := r.WriteTo(os.Stdout); err != nil {
		return err
	}
	o := history.SecondOpinion(h.Events)
	fmt.Printf("Porcupine judged %d messages, left %d, could not decide %d\n", o.Messages, o.Left, o.Undecided)
	for _, v := range o.Illegal {
		fmt.Printf("  %s: %s\n      %s\n", v.Guarantee, v.What, strings.Join(v.Events, "\n      "))
	}
	if err := r.Err(); err != nil {
		return err
	}
	if n := len(o.Illegal); n > 0 {
		return fmt.Errorf("%d messages whose answers no order explains", n)
	}
	return nil
}
