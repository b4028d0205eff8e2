package fsmtest

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime/debug"
	"strings"
	"time"

	"github.com/quorate/quorate/fsm"
)

// RunResult says what a run did.
type RunResult struct {
	Entries, Ops, Cuts, Views int
	Codes                     [16]int // outcomes by code
	Seen                      *Coverage
	Steps                     []Step // when it failed: what led to it
	Err                       error
}

// Run compares the model and the state over a random sequence of about the given number of operations. The seed decides
// everything, but for look: where it is not 0, everything is compared after each so many entries, else as the seed says.
func Run(seed uint64, ops, look int) RunResult {
	var res RunResult
	rng := rand.New(rand.NewPCG(seed, 0xc0ffee))
	p := NewPair(groupOf(seed), true)
	defer func() { p.Close() }()
	g := NewGenerator(seed, p.Model)
	res.Seen = p.Model.seen
	every := 1 + rng.IntN(12) // entries between looks at everything
	if look > 0 {
		every = look
	}
	if ops > longRun {
		g.heavy = false // all entries are kept
	}
	cutPercent := []int{0, 5, 20, 100}[rng.IntN(4)] // entries after which the state goes through a snapshot
	if g.crowd || g.heavy {
		cutPercent = min(cutPercent, 5)
	}
	var held *heldView
	defer func() {
		if held != nil {
			_ = held.done(p.group)
		}
	}()
	for res.Ops < ops && res.Err == nil {
		var step Step
		step.Index, step.Entry = g.Next()
		step.Cut = rng.IntN(100) < cutPercent
		res.Steps = append(res.Steps, step)
		res.Entries++
		res.Ops += len(step.Entry.Ops)
		if step.Cut {
			res.Cuts++
		}
		var fx *fsm.Effects
		fx, res.Err = p.step(step, res.Entries%every == 0)
		if fx != nil {
			for _, o := range fx.Outcomes {
				res.Codes[o.Code]++
			}
			g.Saw(step.Entry, fx)
		}
		switch {
		case res.Err != nil:
		case held == nil && rng.IntN(10) == 0:
			held = holdView(p.State)
			res.Views++
		case held != nil && rng.IntN(6) == 0:
			res.Err, held = held.done(p.group), nil
		}
	}
	if res.Err == nil && held != nil {
		res.Err, held = held.done(p.group), nil
	}
	if res.Err == nil {
		res.Err = p.finish()
	}
	if res.Err == nil {
		res.Steps = nil
	}
	return res
}

// longRun is the number of operations beyond which a run has no bodies of a megabyte.
const longRun = 5000

// groupOf is the group that a seed runs in.
func groupOf(seed uint64) uint16 { return uint16(seed % 3) }

// step makes one step; a panic of the state is an error like any other.
func (p *Pair) step(s Step, look bool) (fx *fsm.Effects, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	fx, err = p.Apply(s.Index, s.Entry)
	if err == nil && s.Cut {
		err = p.Cut()
	}
	if err == nil && look {
		err = p.CompareQueries()
	}
	return fx, err
}

func (p *Pair) finish() (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	if err := p.CompareQueries(); err != nil {
		return err
	}
	if err := p.Replay(); err != nil {
		return err
	}
	return p.drain()
}

// RunSteps plays given steps and looks at everything in the end.
func RunSteps(group uint16, steps []Step) error {
	p := NewPair(group, true)
	defer func() { p.Close() }()
	for i, s := range steps {
		if _, err := p.step(s, false); err != nil {
			return fmt.Errorf("step %d, index %d: %w", i, s.Index, err)
		}
	}
	return p.finish()
}

// Shrink drops entries and operations, but for the first entry, as long as the steps still fail, within the given time.
func Shrink(group uint16, steps []Step, budget time.Duration) []Step {
	until := time.Now().Add(budget)
	more := func() bool { return time.Now().Before(until) }
	try := func(less []Step) bool {
		if RunSteps(group, less) == nil {
			return false
		}
		steps = less
		return true
	}
	uncut := append([]Step(nil), steps...)
	for i := range uncut {
		uncut[i].Cut = false
	}
	try(uncut)
	for size, dropped := max(1, len(steps)/2), false; more(); {
		for at := 1; at < len(steps) && more(); {
			if try(append(append([]Step(nil), steps[:at]...), steps[min(len(steps), at+size):]...)) {
				dropped = true
			} else {
				at += size
			}
		}
		if size == 1 && !dropped {
			break
		}
		size, dropped = max(1, size/2), false
	}
	for i := 1; i < len(steps); i++ {
		for j := 0; j < len(steps[i].Entry.Ops) && more(); {
			less := append([]Step(nil), steps...)
			ops := less[i].Entry.Ops
			less[i].Entry.Ops = append(append([]fsm.Op(nil), ops[:j]...), ops[j+1:]...)
			if !try(less) {
				j++
			}
		}
	}
	return steps
}

// Describe writes steps so that a person can follow them.
func Describe(steps []Step) string {
	var b strings.Builder
	for _, s := range steps {
		fmt.Fprintf(&b, "entry %d now %d shift %d", s.Index, s.Entry.Now, s.Entry.Shift)
		if s.Cut {
			b.WriteString(" then snapshot and restore")
		}
		b.WriteByte('\n')
		for i, op := range s.Entry.Ops {
			fmt.Fprintf(&b, "  %d %s\n", i, describe(op))
		}
	}
	return b.String()
}

// describe shows an operation with its set fields only.
func describe(op fsm.Op) string {
	v := reflect.Indirect(reflect.ValueOf(op))
	var b bytes.Buffer
	show(&b, v)
	return b.String()
}

// empty says that there is nothing to show: absent and empty slices are one.
func empty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice:
		return v.Len() == 0
	case reflect.Struct:
		for i := range v.NumField() {
			if !empty(v.Field(i)) {
				return false
			}
		}
		return true
	}
	return v.IsZero()
}

func show(b *bytes.Buffer, v reflect.Value) {
	switch x := v.Interface().(type) {
	case fsm.ID:
		b.WriteString(shortID(x))
		return
	case []byte:
		if len(x) > 40 {
			fmt.Fprintf(b, "%d bytes %.12q…", len(x), x)
		} else {
			fmt.Fprintf(b, "%q", x)
		}
		return
	case [16]byte:
		fmt.Fprintf(b, "%x…", x[:3])
		return
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		show(b, v.Elem())
	case reflect.Struct:
		b.WriteString(v.Type().Name() + "{")
		sep := ""
		for i := range v.NumField() {
			if f := v.Field(i); !empty(f) {
				b.WriteString(sep + v.Type().Field(i).Name + ":")
				show(b, f)
				sep = " "
			}
		}
		b.WriteString("}")
	case reflect.Slice:
		fmt.Fprintf(b, "%d×[", v.Len())
		for i := range v.Len() {
			if i == 5 {
				b.WriteString(" …")
				break
			}
			if i > 0 {
				b.WriteString(", ")
			}
			show(b, v.Index(i))
		}
		b.WriteString("]")
	default:
		fmt.Fprintf(b, "%v", v.Interface())
	}
}
