package fsm

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestIDText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		id   ID
		text string
	}{ // golden: these texts are in clients' hands
		{ID{}, "00000000000000000000000000"},
		{ID{Lo: 1}, "00000000000000000000000001"},
		{ID{Lo: 31}, "0000000000000000000000000Z"},
		{ID{Lo: 1 << 63}, "00000000000008000000000000"},
		{ID{Hi: 1}, "0000000000000G000000000000"},
		{MakeID(1, 0, 1, 0), "00040000000000000004000000"},
		{MakeID(0xABCD, 0x1234, 0x0123456789ABCDEF, 0xFEDCBA98), "5BSM9380938NKRKAYDXZZDSEMR"},
		{ID{Hi: 1<<64 - 1, Lo: 1<<64 - 1}, "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"},
	} {
		if got := c.id.String(); len(got) != IDTextSize {
			t.Errorf("%+v: %d characters", c.id, len(got))
		}
		want := slowIDText(c.id)
		if got := c.id.String(); got != want {
			t.Errorf("%+v: %s, want %s", c.id, got, want)
		}
		if back, err := ParseID(want); err != nil || back != c.id {
			t.Errorf("%s: %+v, %v", want, back, err)
		}
		if c.id.String() != c.text {
			t.Errorf("%+v: %s, golden %s", c.id, c.id, c.text)
		}
	}
}

// slowIDText takes the 128 bits five at a time from a string of binary digits, 130 of them.
func slowIDText(id ID) string {
	var digits strings.Builder
	digits.WriteString("00")
	for i := 63; i >= 0; i-- {
		digits.WriteByte('0' + byte(id.Hi>>i&1))
	}
	for i := 63; i >= 0; i-- {
		digits.WriteByte('0' + byte(id.Lo>>i&1))
	}
	var out strings.Builder
	for s := digits.String(); s != ""; s = s[5:] {
		v := 0
		for _, c := range s[:5] {
			v = 2*v + int(c-'0')
		}
		out.WriteByte(crockford[v])
	}
	return out.String()
}

func TestIDTextSorts(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(testSeed(t), 0))
	for range 2000 {
		a := ID{rnd.Uint64() >> rnd.IntN(64), rnd.Uint64()}
		b := ID{a.Hi + uint64(rnd.IntN(2)), rnd.Uint64() >> rnd.IntN(64)}
		if strings.Compare(a.String(), b.String()) != a.Compare(b) {
			t.Fatalf("%s and %s sort otherwise than as numbers", a, b)
		}
		tok := Token{Message: a, Lease: b}
		if got, err := ParseToken(tok.String()); err != nil || got != tok || len(tok.String()) != TokenTextSize {
			t.Fatalf("token %s: %v, %v", tok, got, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	good := strings.Repeat("0", IDTextSize)
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "0 characters, want 26"},
		{"short", good[1:], "25 characters"},
		{"long", good + "0", "27 characters"},
		{"lower case", good[1:] + "a", `'a' at position 25`},
		{"letter I", "0I" + good[2:], `'I' at position 1`},
		{"letter O", good[1:] + "O", `'O'`},
		{"letter U", good[1:] + "U", `'U'`},
		{"letter L", good[1:] + "L", `'L'`},
		{"hyphen", good[:12] + "-" + good[13:], `'-' at position 12`},
		{"over 128 bits", "8" + good[1:], "first character '8'"},
		{"not ASCII", good[2:] + "é", "position 24"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if id, err := ParseID(c.text); !errors.Is(err, ErrBadID) || !strings.Contains(err.Error(), c.want) || !id.IsZero() {
				t.Errorf("ParseID: %v, %v; want ErrBadID with %q", id, err, c.want)
			}
			if _, ok := ParseIDBytes([]byte(c.text)); ok {
				t.Error("ParseIDBytes took it")
			}
			for _, s := range []string{c.text + good, good + c.text} {
				if _, err := ParseToken(s); !errors.Is(err, ErrBadID) {
					t.Errorf("ParseToken %q: %v, want ErrBadID", s, err)
				}
			}
		})
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("5BSM4HM4HM04HMASW9NF6YZZPW")
	f.Add("80000000000000000000000000")
	f.Fuzz(func(t *testing.T, s string) {
		id, err := ParseID(s)
		if err == nil && id.String() != s {
			t.Fatalf("%q is read as %s: two texts for one id", s, id)
		}
		if id2, ok := ParseIDBytes([]byte(s)); ok != (err == nil) || id2 != id {
			t.Fatalf("ParseIDBytes %v, ParseID %v", ok, err)
		}
	})
}
