package fsm

import (
	"errors"
	"fmt"
)

// IDTextSize and TokenTextSize are the lengths of the text forms: 128 bits in 26 characters of Crockford's base32, the
// first of which carries 3 bits (so it is at most '7').
const (
	IDTextSize    = 26
	TokenTextSize = 2 * IDTextSize
)

// ErrBadID is what ParseID and ParseToken wrap.
var ErrBadID = errors.New("not an id")

const crockford = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// crockfordValue maps a byte to its 5 bits, 0xFF where it is not in the alphabet. Only the canonical upper-case letters
// count: an id has exactly one text form, so text can be compared, hashed and used as a key.
var crockfordValue = func() (t [256]byte) {
	for i := range t {
		t[i] = 0xFF
	}
	for i := range len(crockford) {
		t[crockford[i]] = byte(i)
	}
	return t
}()

// AppendID appends the 26-character text of id to b.
func AppendID(b []byte, id ID) []byte {
	var t [IDTextSize]byte
	hi, lo := id.Hi, id.Lo
	for i := IDTextSize - 1; i >= 0; i-- {
		t[i] = crockford[lo&31]
		lo = lo>>5 | hi<<59
		hi >>= 5
	}
	return append(b, t[:]...)
}

// String is the canonical text: 26 characters of upper-case Crockford base32, which sort as the ids do.
func (id ID) String() string {
	var t [IDTextSize]byte
	return string(AppendID(t[:0], id))
}

// ParseIDBytes reads the canonical text of an id; false for anything else. It does not allocate, so that it can be used
// to ask whether a task id may be a broker id.
func ParseIDBytes(b []byte) (ID, bool) {
	if len(b) != IDTextSize || crockfordValue[b[0]] > 7 {
		return ID{}, false
	}
	var id ID
	for _, c := range b {
		v := crockfordValue[c]
		if v == 0xFF {
			return ID{}, false
		}
		id.Hi = id.Hi<<5 | id.Lo>>59
		id.Lo = id.Lo<<5 | uint64(v)
	}
	return id, true
}

// ParseID reads the canonical text of an id. Errors wrap ErrBadID and say what is wrong.
func ParseID(s string) (ID, error) {
	if len(s) != IDTextSize {
		return ID{}, fmt.Errorf("%w: %d characters, want %d", ErrBadID, len(s), IDTextSize)
	}
	id, ok := ParseIDBytes([]byte(s))
	if !ok {
		return ID{}, fmt.Errorf("%w: %s", ErrBadID, whyNotID(s))
	}
	return id, nil
}

func whyNotID(s string) string {
	for i := range len(s) {
		if crockfordValue[s[i]] == 0xFF {
			return fmt.Sprintf("character %q at position %d, want one of %s", s[i], i, crockford)
		}
	}
	return fmt.Sprintf("first character %q, want 0 to 7 (128 bits)", s[0])
}

// AppendToken appends the 52-character text of t to b.
func AppendToken(b []byte, t Token) []byte { return AppendID(AppendID(b, t.Message), t.Lease) }

// String is the canonical text: the message's 26 characters, then the lease's. Tokens of one message sort by lease.
func (t Token) String() string {
	var b [TokenTextSize]byte
	return string(AppendToken(b[:0], t))
}

// ParseToken reads the canonical text of a token. Errors wrap ErrBadID.
func ParseToken(s string) (Token, error) {
	if len(s) != TokenTextSize {
		return Token{}, fmt.Errorf("token: %w: %d characters, want %d", ErrBadID, len(s), TokenTextSize)
	}
	m, err := ParseID(s[:IDTextSize])
	if err != nil {
		return Token{}, fmt.Errorf("token, message part: %w", err)
	}
	l, err := ParseID(s[IDTextSize:])
	if err != nil {
		return Token{}, fmt.Errorf("token, lease part: %w", err)
	}
	return Token{Message: m, Lease: l}, nil
}
