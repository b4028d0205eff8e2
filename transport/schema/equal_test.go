package schema

import (
	"context"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"
)

// Items are told apart by what they are.
func TestUniqueItems(t *testing.T) {
	t.Parallel()
	s := mustCompile(t, `{"uniqueItems":true}`)
	many := "," + numbers(30) // beyond what the library compares one by one
	for _, c := range []struct{ body, says string }{
		{`[]`, ""}, {`[1]`, ""}, {`{"a":1}`, ""}, {`[1,2,"1",true,null,[1],{"1":1}]`, ""},
		{`[1,2,1.0]`, "items at 0 and 2 are equal"}, {`[100,1e2]`, "items at 0 and 1"}, {`[0,-0]`, "items at 0 and 1"}, {`[0.0,-0e5]`, "items at 0 and 1"},
		{`[1,-1]`, ""}, {`[0.1,1e-1]`, "items at 0 and 1"}, {`[10,1,0.1,100]`, ""}, {`[1.5,15e-1]`, "items at 0 and 1"}, {`[123.456e3,123456]`, "items at 0 and 1"},
		{`["a","b","a"]`, "items at 0 and 2"}, {`["1:a","1","a"]`, ""}, {`["ab",["a","b"],["ab"]]`, ""}, {`[["a","b"],["a:1","b"]]`, ""},
		{`[{"a":1,"b":2},{"b":2,"a":1.0}]`, "items at 0 and 1"}, {`[{"a":[1,2]},{"a":[2,1]}]`, ""}, {`[{"a":null},{}]`, ""}, {`[{"a":"b"},{"ab":""}]`, ""},
		{`[[[]],[[],[]],[[[]]],[]]`, ""}, {`[[1,[2]],[[1],2],[[1,2]],[1,2]]`, ""}, {`[null,null]`, "items at 0 and 1"}, {`[true,false,true]`, "items at 0 and 2"},
		{`[["x"]` + many + `,["x"]]`, "items at 0 and 31"}, {`[-1` + many + `]`, ""},
	} {
		err := s.Check(context.Background(), []byte(c.body))
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.body, err, c.says)
		}
	}
	if err := mustCompile(t, `{"not":{"uniqueItems":true}}`).Check(context.Background(), []byte(`[1,1]`)); err != nil {
		t.Errorf("what must not be unique: %v", err)
	}
	if err := mustCompile(t, `{"uniqueItems":false}`).Check(context.Background(), []byte(`[1,1]`)); err != nil {
		t.Errorf("what need not be: %v", err)
	}
}

// Lists within lists are all the same to the library's hashes, so that a body of a few hundred kilobytes was compared for minutes.
func TestUniqueListsAreNoSquare(t *testing.T) {
	t.Parallel()
	var all []string
	var trees func(open, closed int, b []byte)
	trees = func(open, closed int, b []byte) { // all ways to nest twelve lists in one
		switch {
		case len(all) == 20_000:
		case open == 12 && closed == 12:
			all = append(all, "["+strings.ReplaceAll(string(b), "][", "],[")+"]")
		default:
			if open < 12 {
				trees(open+1, closed, append(b[:len(b):len(b)], '['))
			}
			if closed < open {
				trees(open, closed+1, append(b[:len(b):len(b)], ']'))
			}
		}
	}
	trees(0, 0, nil)
	began := time.Now()
	if err := mustCompile(t, `{"uniqueItems":true}`).Check(context.Background(), []byte("["+strings.Join(all, ",")+"]")); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took > 30*time.Second { // minutes, by the hashes
		t.Errorf("it took %s", took)
	}
}

// FuzzNumber: two numbers have one text where they are the same, and where they are not, two.
func FuzzNumber(f *testing.F) {
	for _, n := range []string{"0", "-0", "1.0", "1e2", "100", "0.10", "-1.50e-3", "123456789012345678901234567890", "1E+2", "0e400"} {
		f.Add(n, "100")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		for _, s := range []string{a, b} {
			if !json.Valid([]byte(s)) || strings.Trim(s, "0123456789.eE+-") != "" || number(s) != nil {
				return
			}
		}
		p, ok := new(big.Rat).SetString(a)
		q, ok2 := new(big.Rat).SetString(b)
		if !ok || !ok2 {
			t.Fatalf("%q or %q is no number", a, b)
		}
		if same := normal(json.Number(a)) == normal(json.Number(b)); same != (p.Cmp(q) == 0) {
			t.Fatalf("%s and %s: %q and %q", a, b, normal(json.Number(a)), normal(json.Number(b)))
		}
	})
}
