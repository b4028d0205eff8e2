package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/quorate/quorate/bench/proc"
)

// node is one of the three, and what it is for the length of a run.
type node struct {
	*proc.Node
	role string // leader or follower
	out  string // where its files go
}

const (
	// maxFile bounds what is taken from a node at once: a trace of a few seconds has tens of megabytes.
	maxFile = 1 << 30
	// fetchSlack is how long a node may take beyond the time that a profile covers.
	fetchSlack = 20 * time.Second
)

func (n *node) url(path string) string { return "http://" + n.ClientAddr + path }

// fetch writes what a path answers to a file of the node's. covers is the time that the answer is about.
func (n *node) fetch(ctx context.Context, covers time.Duration, path, file string) error {
	ctx, cancel := context.WithTimeout(ctx, covers+fetchSlack)
	defer cancel()
	body, err := n.get(ctx, http.MethodGet, path)
	if err != nil {
		return err
	}
	defer body.Close()
	f, err := os.Create(n.file(file))
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, io.LimitReader(body, maxFile)); err != nil {
		f.Close()
		return fmt.Errorf("%s of node %s: %w", path, n.Name, err)
	}
	return f.Close()
}

func (n *node) file(name string) string {
	return filepath.Join(n.out, n.role+"-"+n.Name+"."+name)
}

func (n *node) get(ctx context.Context, method, path string) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, n.url(path), nil)
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask node %s: %w", n.Name, err)
	}
	if res.StatusCode != http.StatusOK {
		defer res.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(res.Body, 1024)) // for the error alone
		return nil, fmt.Errorf("ask node %s for %s: %s: %s (was the binary built with -tags profile?)", n.Name, path, res.Status, text)
	}
	return res.Body, nil
}

// rates sets those of the block and mutex profiles.
func (n *node) rates(ctx context.Context, blockNanos, mutex int) error {
	body, err := n.get(ctx, http.MethodPost, fmt.Sprintf("/debug/rates?block_ns=%d&mutex=%d", blockNanos, mutex))
	if err != nil {
		return err
	}
	return body.Close()
}

// metrics are a node's, series by series, summed over their labels.
type metrics map[string]float64

func (n *node) metrics(ctx context.Context) (metrics, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchSlack)
	defer cancel()
	body, err := n.get(ctx, http.MethodGet, "/metrics")
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return readMetrics(io.LimitReader(body, maxFile))
}

func readMetrics(r io.Reader) (metrics, error) {
	m := metrics{}
	s := bufio.NewScanner(r)
	for s.Scan() {
		line := s.Text()
		if strings.HasPrefix(line, "#") || line == "" {
			continue
		}
		i := strings.LastIndexByte(line, ' ')
		name, _, _ := strings.Cut(line[:max(i, 0)], "{")
		v, err := strconv.ParseFloat(line[i+1:], 64)
		if err != nil || name == "" {
			return nil, fmt.Errorf("metrics line %q: want a name and a number", line)
		}
		if strings.HasSuffix(name, "_bucket") {
			continue
		}
		m[name] += v
	}
	return m, s.Err()
}

// mean is a histogram's mean between two looks, and how many observations it is of.
func mean(before, after metrics, name string) (value, count float64) {
	count = after[name+"_count"] - before[name+"_count"]
	if count == 0 {
		return 0, 0
	}
	return (after[name+"_sum"] - before[name+"_sum"]) / count, count
}
