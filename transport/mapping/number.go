package mapping

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"strconv"
	"strings"
)

// Numbers are integers of 64 bits and floats. What cannot be told by one of them exactly is an error and not another number: integers do not
// wrap, and become floats unasked only where nothing of them is lost.

// wide is an integer of a body that does not fit in 64 bits, as it was written. It can be passed on, compared and made a text or a float.
type wide struct{ text string }

func (w wide) negative() bool { return strings.HasPrefix(w.text, "-") }

// beyond is the error about an integer that does not fit.
func beyond(format string, args ...any) error {
	return fmt.Errorf("integer overflow: %s is beyond 64 bits; a float, as of float(n), would be right where it may be rounded", fmt.Sprintf(format, args...))
}

// operators that calculate.
const (
	opAdd = iota
	opSubtract
	opMultiply
	opDivide
	opRemainder
	opPower
)

var signs = [...]string{"+", "-", "*", "/", "%", "**"}

// add is +: of numbers their sum, of texts both in a row.
func (r *run) add(a, b any) (any, error) {
	x, ok := a.(string)
	y, ok2 := b.(string)
	if ok && ok2 {
		if err := r.room(len(x) + len(y)); err != nil {
			return nil, err
		}
		return x + y, nil
	}
	if !isNumber(a) || !isNumber(b) {
		return nil, fmt.Errorf("%s + %s; two numbers or two texts would be right", name(a), name(b))
	}
	return calculate(opAdd, a, b)
}

// calculating is an operator of two numbers.
func calculating(op int) func(a, b any) (any, error) {
	return func(a, b any) (any, error) {
		if !isNumber(a) || !isNumber(b) {
			return nil, fmt.Errorf("%s %s %s; two numbers would be right", name(a), signs[op], name(b))
		}
		return calculate(op, a, b)
	}
}

func isNumber(v any) bool {
	switch v.(type) {
	case int, float64, wide:
		return true
	}
	return false
}

func calculate(op int, a, b any) (any, error) {
	x, ok := a.(int)
	y, ok2 := b.(int)
	if ok && ok2 {
		return integers(op, x, y)
	}
	if op == opRemainder {
		return nil, fmt.Errorf("%s %% %s; two integers would be right", shown(a), shown(b))
	}
	f, err := exactly(a)
	if err != nil {
		return nil, err
	}
	g, err := exactly(b)
	if err != nil {
		return nil, err
	}
	return floats(op, f, g)
}

// exactly is a number as a float that is the same number.
func exactly(v any) (float64, error) {
	switch x := v.(type) {
	case float64:
		return x, nil
	case int:
		if f := float64(x); f < 1<<63 && int(f) == x {
			return f, nil
		}
		return 0, fmt.Errorf("the integer %d has more digits than a float; float(%d) would be right where it may be rounded", x, x)
	case wide:
		return 0, beyond("%s", shown(x))
	}
	return 0, wants("a float", v, "a number")
}

// integers calculates with integers. What they come to is one, but for / and powers of less than 0.
func integers(op, x, y int) (any, error) {
	n, fits := 0, true
	switch op {
	case opAdd:
		n = x + y
		fits = (n > x) == (y > 0)
	case opSubtract:
		n = x - y
		fits = (n < x) == (y > 0)
	case opMultiply:
		n, fits = multiplied(x, y)
	case opRemainder:
		switch y {
		case 0:
			return nil, divided(op, x)
		case -1: // the least integer by -1 would not fit
			return 0, nil
		}
		n = x % y
	case opPower:
		if y >= 0 {
			n, fits = power(x, y)
			break
		}
		fallthrough
	default:
		f, err := exactly(x)
		if err != nil {
			return nil, err
		}
		g, err := exactly(y)
		if err != nil {
			return nil, err
		}
		return floats(op, f, g)
	}
	if !fits {
		return nil, beyond("%d %s %d", x, signs[op], y)
	}
	return n, nil
}

func multiplied(x, y int) (n int, fits bool) {
	high, low := bits.Mul64(magnitude(x), magnitude(y))
	if (x < 0) != (y < 0) {
		return -int(low), high == 0 && low <= 1<<63
	}
	return int(low), high == 0 && low < 1<<63
}

func magnitude(x int) uint64 {
	if x < 0 {
		return -uint64(x)
	}
	return uint64(x)
}

// power is x to the power of y, which is 0 or more, by squares.
func power(x, y int) (n int, fits bool) {
	n = 1
	for {
		if y&1 == 1 {
			if n, fits = multiplied(n, x); !fits {
				return 0, false
			}
		}
		if y >>= 1; y == 0 {
			return n, true
		}
		if x, fits = multiplied(x, x); !fits {
			return 0, false // a bit of y is left, and n is not 0: with an x that large it does not fit
		}
	}
}

// floats calculates with floats. What JSON has no number for is an error.
func floats(op int, x, y float64) (any, error) {
	f := 0.0
	switch op {
	case opAdd:
		f = x + y
	case opSubtract:
		f = x - y
	case opMultiply:
		f = x * y
	case opDivide:
		if y == 0 {
			return nil, divided(op, x)
		}
		f = x / y
	case opPower:
		if x == 0 && y < 0 {
			return nil, divided(op, x)
		}
		f = math.Pow(x, y)
	}
	switch {
	case math.IsNaN(f):
		return nil, fmt.Errorf("%g %s %g is no number", x, signs[op], y)
	case math.IsInf(f, 0):
		return nil, fmt.Errorf("%g %s %g is beyond the largest number, 1.8e308", x, signs[op], y)
	}
	return f, nil
}

func divided(op int, x any) error {
	if op == opPower {
		return fmt.Errorf("division by zero: 0 to the power of less than 0")
	}
	return fmt.Errorf("division by zero: %s %s 0; a condition before it would be right", shown(x), signs[op])
}

// negate is - before a number.
func (r *run) negate(v any) (any, error) {
	switch x := v.(type) {
	case int:
		if x == math.MinInt {
			return nil, beyond("-(%d)", x)
		}
		return -x, nil
	case float64:
		return -x, nil
	case wide:
		return nil, beyond("-%s", shown(x))
	}
	return nil, wants("-", v, "a number")
}

// plus is + before a number.
func (r *run) plus(v any) (any, error) {
	if !isNumber(v) {
		return nil, wants("+", v, "a number")
	}
	return v, nil
}

// compare says how numbers, or texts, stand to each other: -1, 0 or 1. Numbers are compared by what they are, whatever their kind.
func (r *run) compare(a, b any) (c int, ok bool, err error) {
	if x, ok := a.(string); ok {
		y, ok := b.(string)
		if !ok {
			return 0, false, nil
		}
		return strings.Compare(x, y), true, r.pay(min(len(x), len(y)))
	}
	if !isNumber(a) || !isNumber(b) {
		return 0, false, nil
	}
	c, err = r.order(a, b)
	return c, true, err
}

// wideBytes is how many bytes of text a comparison of a wide integer counts as, beside its own: it may be with a float, digit by digit.
const wideBytes = 16 * stepBytes

// order compares two numbers, and pays where they may be long.
func (r *run) order(a, b any) (int, error) {
	for _, v := range []any{a, b} {
		if w, ok := v.(wide); ok {
			if err := r.pay(wideBytes + len(w.text)); err != nil {
				return 0, err
			}
		}
	}
	return ordered(a, b), nil
}

// ordered compares two numbers.
func ordered(a, b any) int {
	switch x := a.(type) {
	case int:
		switch y := b.(type) {
		case int:
			return sign(x, y)
		case float64:
			return integerAndFloat(x, y)
		}
	case float64:
		switch y := b.(type) {
		case int:
			return -integerAndFloat(y, x)
		case float64:
			return sign(x, y)
		}
	case wide:
		switch y := b.(type) {
		case wide:
			return wides(x, y)
		case float64:
			if math.Abs(y) >= 1<<63 { // it is an integer
				n, _ := new(big.Float).SetFloat64(y).Int(nil)
				return wides(x, wide{n.String()})
			}
		}
		if x.negative() {
			return -1
		}
		return 1
	}
	return -ordered(b, a) // b is wide, and a is not
}

func sign[T int | float64](x, y T) int {
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

// integerAndFloat compares without making one the other, where that would lose digits.
func integerAndFloat(n int, f float64) int {
	switch {
	case f >= 1<<63:
		return -1
	case f < -1<<63:
		return 1
	}
	whole := math.Trunc(f)
	if c := sign(n, int(whole)); c != 0 {
		return c
	}
	return sign(whole, f)
}

// wides compares integers by sign, length and digits.
func wides(x, y wide) int {
	switch {
	case x.negative() && !y.negative():
		return -1
	case !x.negative() && y.negative():
		return 1
	}
	c := sign(len(x.text), len(y.text))
	if c == 0 {
		c = strings.Compare(x.text, y.text)
	}
	if x.negative() {
		return -c
	}
	return c
}

// comparing is <, <=, > or >=.
func (r *run) comparing(operator string, holds func(c int) bool) func(a, b any) (bool, error) {
	return func(a, b any) (bool, error) {
		c, ok, err := r.compare(a, b)
		if !ok {
			return false, fmt.Errorf("%s %s %s; two numbers or two texts would be right", name(a), operator, name(b))
		}
		return holds(c), err
	}
}

// between is a..b: the integers from one to another.
func (r *run) between(a, b any) ([]int, error) {
	x, ok := a.(int)
	y, ok2 := b.(int)
	if !ok || !ok2 {
		return nil, fmt.Errorf("%s..%s; two integers would be right", shown(a), shown(b))
	}
	if y < x {
		return []int{}, r.pay(0)
	}
	n := uint64(y) - uint64(x) // one less than there are
	if r.values += int(min(n, maxValues)) + 1; r.values > maxValues {
		return nil, errValues
	}
	if err := r.pay(8 * int(n)); err != nil {
		return nil, err
	}
	list := make([]int, n+1)
	for i := range list {
		list[i] = x + i
	}
	return list, nil
}

// shown is a number as it is, and all else by what it is.
func shown(v any) string {
	switch x := v.(type) {
	case int:
		return strconv.Itoa(x)
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64)
	case wide:
		if len(x.text) > 40 {
			return x.text[:40] + "…"
		}
		return x.text
	}
	return name(v)
}
