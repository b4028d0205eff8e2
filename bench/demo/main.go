package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	os.Exit(run())
}

func run() int {
	var o options
	var cluster bool
	flag.StringVar(&o.binary, "binary", "bin/quorate", "the quorate binary")
	flag.StringVar(&o.dir, "dir", ".", "hash every regular file below this folder")
	flag.StringVar(&o.data, "data", "", "keep the nodes' data here (default: a temporary folder, removed)")
	flag.IntVar(&o.workers, "workers", 3, "worker processes")
	flag.IntVar(&o.concurrency, "concurrency", 4, "commands at once in each worker")
	flag.BoolVar(&cluster, "cluster", false, "run three nodes in the foreground until Ctrl-C")
	flag.IntVar(&o.port, "port", 7340, "with -cluster: the first node's client port; it takes two more behind it, and the others the ones 10 and 20 further on")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if cluster {
		err = foreground(ctx, o)
	} else {
		err = demo(ctx, o)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "demo: %v\n", err)
		return 1
	}
	return 0
}
