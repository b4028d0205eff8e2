package mapping

import (
	"errors"
	"math"
	"math/big"
	"strings"
	"testing"
)

const (
	most  = `9223372036854775807`
	least = `-9223372036854775808`
	wider = `12345678901234567890123`
)

// Numbers are exact or refused, with the place; they never wrap and are never rounded unasked.
func TestNumbers(t *testing.T) {
	t.Parallel()
	const overflow = "integer overflow: "
	for _, c := range []struct{ name, expression, body, want string }{
		{"a sum at the limit", `body + 7`, `9223372036854775800`, most},
		{"a sum beyond", `body + 8`, `9223372036854775800`, "1:6: " + overflow + "9223372036854775800 + 8 is beyond 64 bits; a float"},
		{"a sum below", `body + -1`, least, "1:6: " + overflow},
		{"a sum on another line", "{\n  a: body + 1}", most, "2:11: " + overflow},
		{"a constant sum", `9223372036854775807 + 1`, `0`, "1:21: " + overflow},
		{"a constant product", `[4611686018427387904 * 2]`, `0`, "1:22: " + overflow},
		{"a difference at the limit", `body - 8`, `-9223372036854775800`, least},
		{"a difference below", `body - 9`, `-9223372036854775800`, "1:6: " + overflow},
		{"a difference of the least", `0 - body`, least, "1:3: " + overflow},
		{"minus the least", `-body`, least, "1:1: " + overflow + "-(" + least + ")"},
		{"minus the most", `-body`, most, `-9223372036854775807`},
		{"a product at the limit", `body * -2`, `4611686018427387904`, least},
		{"a product beyond", `body * 2`, `4611686018427387904`, "1:6: " + overflow},
		{"a product that wraps to 0", `body * body`, `4294967296`, "1:6: " + overflow},
		{"the least by -1", `body * -1`, least, "1:6: " + overflow},
		{"the least over -1", `body / -1`, least, `9.223372036854776e+18`},
		{"the remainder of the least by -1", `body % -1`, least, `0`},
		{"a remainder of nothing", `1 % body`, `0`, "1:3: division by zero: 1 % 0"},
		{"over nothing", `1 / body`, `0`, "1:3: division by zero: 1 / 0"},
		{"over no part of one", `1.5 / body`, `0.0`, "1:5: division by zero"},
		{"nothing over nothing", `body / body`, `0.0`, "1:6: division by zero"},
		{"a quotient", `body / 4`, `7`, `1.75`},
		{"a quotient of what no float is", `body / 3`, `9007199254740993`, "1:6: the integer 9007199254740993 has more digits than a float; float(9007199254740993) would be right"},
		{"the same, asked for", `float(body) / 1`, `9007199254740993`, `9.007199254740992e+15`},
		{"an integer and a float", `body + 0.5`, `9007199254740993`, "1:6: the integer"},
		{"an integer and a float, exact", `body + 0.5`, `2251799813685249`, `2.2517998136852495e+15`},
		{"the most as a float", `body * 1.0`, most, "1:6: the integer"},
		{"a power", `2 ** 62`, `0`, `4611686018427387904`},
		{"a power at the limit", `(-2) ** 63`, `0`, least},
		{"a power beyond", `2 ** 63`, `0`, "1:3: " + overflow + "2 ** 63"},
		{"a power far beyond", `3 ^ 9223372036854775807`, `0`, "1:3: " + overflow},
		{"a power of 1", `(-1) ** 9223372036854775807`, `0`, `-1`},
		{"a power of 0", `0 ** 0`, `0`, `1`},
		{"an exact power", `3 ** 39`, `0`, `4052555153018976267`},
		{"a power of less than 0", `2 ** -1`, `0`, `0.5`},
		{"0 to the power of less than 0", `0 ** -1`, `0`, "1:3: division by zero"},
		{"a power that is none", `(-8) ** 0.5`, `0`, "1:6: -8 ** 0.5 is no number"},
		{"a power of floats beyond", `10.0 ** 400`, `0`, "1:6: 10 ** 400 is beyond the largest number"},
		{"a product of floats beyond", `1e308 * body`, `10`, "1:7: 1e+308 * 10 is beyond the largest number"},
		{"a sum of floats beyond", `body + body`, `1e308`, "1:6: "},
		{"a sum of a list at the limit", `sum(body)`, `[9223372036854775800, 7]`, most},
		{"a sum of a list beyond", `sum(body)`, `[9223372036854775800, 7, 1]`, "1:1: " + overflow},
		{"a sum by a condition beyond", `sum(body, .n * 2)`, `[{"n":4611686018427387903},{"n":1}]`, "1:1: " + overflow},
		{"a sum that goes out and comes back", `sum(body)`, `[9223372036854775807, 1, -1]`, "1:1: " + overflow},
		{"a sum of texts", `sum(body)`, `["a"]`, "1:1: a number + a text"},
		{"a sum of nothing", `sum(body)`, `[]`, `0`},
		{"a sum within a loop", `map(body, sum(#))`, `[[1,2],[3.5]]`, `[3,3.5]`},
		{"a fold beyond", `reduce(body, #acc * #)`, `[4294967296, 4294967296]`, "1:19: " + overflow},
		{"abs of the least", `abs(body)`, least, "1:1: " + overflow},
		{"int of a float beyond", `int(body)`, `1e19`, "1:1: " + overflow + "int(1e+19)"},
		{"int of a float at the limit", `int(body)`, `9223372036854774784.0`, `9223372036854774784`},
		{"int of a float one beyond", `int(body)`, `9223372036854775808.0`, "1:1: " + overflow},
		{"int of a text beyond", `int("9223372036854775808")`, `0`, "1:1: " + overflow},
		{"floor beyond", `floor(body)`, `1e300`, "1:1: " + overflow},
		{"ceil beyond", `ceil(body)`, `-1e300`, "1:1: " + overflow},
		{"round", `round(body)`, `2.5`, `3`},
		{"float of a text beyond", `float("1e999")`, `0`, "1:1: float of \"1e999\", which is beyond the largest number"},
		{"float of infinity", `float("Inf")`, `0`, "1:1: float of the text"},
		{"float of no number", `float("NaN")`, `0`, "1:1: float of the text"},
		{"a range over all", `len(` + `(-9223372036854775807)` + `..9223372036854775807)`, `0`, "1:27: it makes more than 500000 values"},
		{"a range that ends before it begins", `9223372036854775807..(-9223372036854775807)`, `0`, `[]`},
		{"a range to the most", `9223372036854775806..9223372036854775807`, `0`, `[9223372036854775806,9223372036854775807]`},
		{"a range of parts", `body..3`, `1.5`, "1:5: 1.5..3; two integers would be right"},
		{"an index of a part", `body[0.5]`, `[1,2]`, "1:6: 0.5 as an index; an integer or a name would be right"},
		{"an index of a whole float", `body[1.0]`, `[1,2]`, `2`},
		{"an index far out", `body[body[0]]`, `[9223372036854775807]`, "1:5: index 9223372036854775807 of a list of 1"},
		{"an index beyond", `body[body[0]]`, `[1e300]`, "as an index"},
		{"part of a list by parts", `body[0.5:]`, `[1,2]`, "1:5: 0.5 as an end of a part"},
		{"part of a list far out", `body[-9223372036854775807:9223372036854775807]`, `[1,2]`, `[1,2]`},
		{"comparing near", `[body.a > body.b, body.a == body.b, body.a < body.b, body.b in [body.a]]`, `{"a":9007199254740993,"b":9007199254740992.0}`, `[true,false,false,false]`},
		{"comparing at the limit", `[body.a < body.b, body.a == body.b, body.b > body.a]`, `{"a":9223372036854775807,"b":9223372036854775808.0}`, `[true,false,true]`},
		{"comparing with parts", `[1 < body, 2 > body, -1 < body, body > -2, 1 != body]`, `1.5`, `[true,true,true,true,true]`},
		{"the larger one near", `[max(body.a, body.b), min(body.a, body.b)]`, `{"a":9007199254740993,"b":9007199254740992.0}`, `[9007199254740993,9.007199254740992e+15]`},
		{"comparing texts and numbers", `body < 1`, `"a"`, "1:6: a text < a number; two numbers or two texts would be right"},
		{"comparing texts", `[body < "b", body >= "a"]`, `"a"`, `[true,true]`},
		{"a wide one passed on", `{id: body.id, l: [body.id]}`, `{"id":` + wider + `}`, `{"id":` + wider + `,"l":[` + wider + `]}`},
		{"a wide one by fromJSON", `fromJSON(toJSON(body))`, `[-` + wider + `]`, `[-` + wider + `]`},
		{"a wide one as text", `"n" + string(body)`, wider, `text:n` + wider},
		{"a wide one calculated with", `body + 1`, wider, "1:6: " + overflow + wider + " is beyond 64 bits"},
		{"a wide one and a wide one", `body % body`, wider, "1:6: "},
		{"a wide one made an integer", `int(body)`, wider, "1:1: " + overflow + "int(" + wider + ")"},
		{"a wide one made a float", `float(body)`, wider, `1.2345678901234568e+22`},
		{"a wide one that no float is", `float(body)`, strings.Repeat("9", 400), "1:1: float of "},
		{"minus a wide one", `-body`, wider, "1:1: " + overflow},
		{"abs of a wide one", `abs(body)`, wider, wider},
		{"a wide one as an index", `headers[body]`, wider, "1:9: " + wider + " as an index"},
		{"wide ones compared", `[body[0] > body[1], body[0] == body[2], body[3] < body[1], body[3] < body[4], body[1] > 9223372036854775807, body[0] == body[5], body[6] < 1.5e300, -1e300 < body[3]]`,
			`[` + wider + `,12345678901234567890122,` + wider + `,-` + wider + `,-9223372036854775809,12345678901234567890123.0,` + strings.Repeat("9", 300) + `]`,
			`[true,true,true,true,true,false,true,true]`},
		{"a wide one and the float that it is", `body[0] == body[1] and body[0] <= body[1]`, `[18446744073709551616,18446744073709551616.0]`, `true`},
		{"an integer literal beyond", `9223372036854775808`, `0`, "compile 1:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, err := Compile(c.expression, Body)
			got := ""
			if err != nil {
				got = "compile " + err.Error()
			} else {
				var b []byte
				var contentType string
				b, contentType, err = p.Body(t.Context(), input(c.body), 10_000)
				if got = string(b); contentType == typeText {
					got = "text:" + got
				}
			}
			var e *Error
			switch {
			case err == nil && got != c.want:
				t.Errorf("%s, want %s", got, c.want)
			case err == nil:
			case !errors.As(err, &e) || !strings.Contains("compile "+err.Error(), c.want):
				t.Errorf("%v, want an *Error with %q", err, c.want)
			}
		})
	}
}

// Every sum, difference, product and power of integers is the exact one, or refused where that does not fit.
func TestIntegersAreExact(t *testing.T) {
	t.Parallel()
	edges := []int{0, 1, -1, 2, -2, 3, 7, -7, 62, 63, 64, 1 << 31, 1<<31 - 1, 1 << 32, -1 << 32, 3037000499, 3037000500, 1 << 62, -1 << 62, math.MaxInt, math.MaxInt - 1, math.MinInt, math.MinInt + 1}
	for _, x := range edges {
		for _, y := range edges {
			for op, f := range map[int]func(z, x, y *big.Int){
				opAdd:      func(z, x, y *big.Int) { z.Add(x, y) },
				opSubtract: func(z, x, y *big.Int) { z.Sub(x, y) },
				opMultiply: func(z, x, y *big.Int) { z.Mul(x, y) },
				opPower:    func(z, x, y *big.Int) { z.Exp(x, y, nil) },
			} {
				if op == opPower && (y < 0 || y > 64 && x != 0 && x != 1 && x != -1) {
					continue
				}
				want := new(big.Int)
				if op == opPower && y > 64 { // of 0, 1 and -1
					want.SetInt64(int64(x))
					if x == -1 && y%2 == 0 {
						want.SetInt64(1)
					}
				} else {
					f(want, big.NewInt(int64(x)), big.NewInt(int64(y)))
				}
				got, err := integers(op, x, y)
				if want.IsInt64() != (err == nil) || err == nil && got != int(want.Int64()) {
					t.Errorf("%d %s %d: %v, %v; want %s", x, signs[op], y, got, err, want)
				}
			}
			for _, f := range []float64{float64(y), float64(y) + 0.5, math.Nextafter(float64(y), 0)} {
				want := new(big.Float).SetInt64(int64(x)).Cmp(big.NewFloat(f))
				if got := ordered(x, f); got != want || ordered(f, x) != -want {
					t.Errorf("%d and %g: %d, want %d", x, f, got, want)
				}
			}
		}
	}
}
