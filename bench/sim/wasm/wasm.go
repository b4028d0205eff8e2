// Package wasm builds bench/sim as a wasip1 test binary and runs plans in it, bit for bit the same each time: one thread without
// preemption, random numbers from the plan's seed, and clocks that go on only as the program looks at them.
package wasm

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/quorate/quorate/bench/sim"
	"github.com/quorate/quorate/fsm/mutant"
)

const (
	pkg        = "github.com/quorate/quorate/bench/sim"
	pages      = 32 << 10 // of 64 KiB: 2 GiB of memory a run
	keepOutput = 1 << 20  // of a run that has no result
)

// Module is the compiled simulation. Runs may go on side by side.
type Module struct {
	rt    wazero.Runtime
	code  wazero.CompiledModule
	cache wazero.CompilationCache
}

// Load builds the simulation as it is in the working directory's module, and compiles it. What wazero makes of it is kept in dir, so
// that the next load of the same is quick; "": in the user's cache. Close the module.
func Load(ctx context.Context, dir string) (*Module, error) {
	tmp, err := os.MkdirTemp("", "quorate-sim-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(tmp) }() // a temporary folder that stays does no harm
	file := filepath.Join(tmp, "sim.wasm")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-ldflags=-s -w", "-tags", mutant.Tag(), "-o", file, pkg)
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build the simulation: %w\n%s", err, out)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if dir == "" {
		if dir, err = os.UserCacheDir(); err != nil {
			dir = os.TempDir()
		}
		dir = filepath.Join(dir, "quorate-sim")
	}
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return nil, fmt.Errorf("wazero's cache: %w", err)
	}
	m := &Module{cache: cache}
	m.rt = wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(cache).WithMemoryLimitPages(pages))
	if _, err := wasi_snapshot_preview1.Instantiate(ctx, m.rt); err != nil {
		return nil, errors.Join(err, m.Close(ctx))
	}
	if m.code, err = m.rt.CompileModule(ctx, b); err != nil {
		return nil, errors.Join(fmt.Errorf("compile the simulation: %w", err), m.Close(ctx))
	}
	return m, nil
}

// Close frees the module.
func (m *Module) Close(ctx context.Context) error {
	return errors.Join(m.rt.Close(ctx), m.cache.Close(ctx))
}

// Run carries out a plan. The result is the simulation's own; a run that ends without one, in a panic or a deadlock, is told as a
// result with that as what is wrong. The error is of the machinery, or ctx's.
func (m *Module) Run(ctx context.Context, p sim.Plan, tell bool) (*sim.Result, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	args := []string{"sim.test", "-test.run=^TestPlan$", "-test.timeout=0", "-sim.plan=" + string(b)}
	if tell {
		args = append(args, "-sim.tell")
	}
	var out bytes.Buffer
	now := int64(1_700_000_000_000_000_000)
	look := func() int64 { // each look is a microsecond
		if now += 1000; now%(1<<20) < 1000 && ctx.Err() != nil {
			panic(sys.NewExitError(sys.ExitCodeContextCanceled)) // wazero's own check for that makes everything slower
		}
		return now
	}
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], p.Seed)
	_, err = m.rt.InstantiateModule(ctx, m.code, wazero.NewModuleConfig().WithName("").WithArgs(args...).WithEnv("GOGC", "400").
		WithStdout(&out).WithStderr(&out).
		WithRandSource(rand.NewChaCha8(key)).
		WithNanotime(look, sys.ClockResolution(1)).
		WithWalltime(func() (int64, int32) { t := look(); return t / 1e9, int32(t % 1e9) }, sys.ClockResolution(1)).
		WithNanosleep(func(ns int64) { now += ns }))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if r, ok := result(&out); ok {
		return r, nil
	}
	text := out.String()
	if len(text) > keepOutput {
		text = text[:keepOutput]
	}
	return &sim.Result{Seed: p.Seed, Broken: 1, Wrong: []string{"the run ended without a result: " + firstLine(text, err)}, Report: text}, nil
}

// result finds the result in what a run has printed.
func result(out *bytes.Buffer) (*sim.Result, bool) {
	lines := bufio.NewReader(bytes.NewReader(out.Bytes()))
	for {
		line, err := lines.ReadString('\n')
		if s, ok := strings.CutPrefix(line, sim.ResultLine); ok {
			r := new(sim.Result)
			if json.Unmarshal([]byte(s), r) == nil {
				return r, true
			}
		}
		if errors.Is(err, io.EOF) {
			return nil, false
		}
	}
}

// firstLine is what a failed run says first: the panic, mostly.
func firstLine(text string, err error) string {
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "panic:") || strings.HasPrefix(line, "fatal error:") {
			return strings.TrimSpace(line)
		}
	}
	return fmt.Sprintf("%v: %.200s", err, text)
}

// Shrink takes faults away from a plan whose run goes wrong as long as it still goes wrong in the same way, until none can be spared or ctx
// ends: first many at a time, then fewer, then one by one. It returns the smallest plan that it has found and how many runs that took.
func Shrink(ctx context.Context, p sim.Plan, like *sim.Result, run func(context.Context, sim.Plan) (*sim.Result, error)) (sim.Plan, int) {
	runs := 0
	wrong := func(q sim.Plan) bool {
		runs++
		r, err := run(ctx, q)
		return err == nil && r.Broken > 0 && kindOf(r) == kindOf(like)
	}
	if p.Minor { // one cause less
		q := p
		q.Minor = false
		if wrong(q) {
			p = q
		}
	}
	for size := max(1, len(p.Faults)/2); ctx.Err() == nil; {
		spared := false
		for at := 0; at < len(p.Faults) && ctx.Err() == nil; {
			q := p
			q.Faults = append(append([]sim.Fault{}, p.Faults[:at]...), p.Faults[min(at+size, len(p.Faults)):]...)
			if wrong(q) {
				p, spared = q, true
				continue
			}
			at += size
		}
		switch {
		case size > 1:
			size = max(1, min(size/2, len(p.Faults)))
		case !spared:
			return p, runs
		}
	}
	return p, runs
}

// kindOf is what sort of wrong a run went: the guarantee, or the beginning of what is said.
func kindOf(r *sim.Result) string {
	if len(r.Wrong) == 0 {
		return ""
	}
	first := r.Wrong[0]
	if g, _, ok := strings.Cut(first, ":"); ok && len(g) < 12 {
		return g
	}
	return first[:min(len(first), 40)]
}

// Took tells how long a run took for how much fake time, for reports.
func Took(r *sim.Result, took time.Duration) string {
	fake := time.Duration(r.FakeMillis) * time.Millisecond
	return fmt.Sprintf("%v of fake time in %v", fake.Round(time.Second), took.Round(10*time.Millisecond))
}
