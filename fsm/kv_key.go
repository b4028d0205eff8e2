package fsm

import (
	"bytes"
	"unicode/utf8"
)

// A KV key is a list of strings. In the log and in the state it is one string of bytes: each string of the list with 00
// written as 00 FF, and 00 01 behind it. So bytes sort as lists do, string by string, and the encoding of a list's first
// strings is a prefix of the list's own, and of no other's.
const (
	kvEscape = 0x00
	kvZero   = 0xFF // behind an escape: a zero byte of the string
	kvEnd    = 0x01 // behind an escape: the string ends
)

// Limits of KV keys; part of the log format.
const (
	MaxKVStrings = 16  // of a key; at least 1
	MaxKVString  = 256 // bytes of one string, which is UTF-8 and may be empty
	MaxKVKeys    = 16  // of keys_if_undelivered of one message
	// maxKVEncoded bounds an encoded key.
	maxKVEncoded = MaxKVStrings * (2*MaxKVString + 2)
)

// AppendKVString appends one string of a key, or of a prefix of keys.
func AppendKVString[T string | []byte](b []byte, part T) []byte {
	for i := range len(part) {
		if b = append(b, part[i]); part[i] == kvEscape {
			b = append(b, kvZero)
		}
	}
	return append(b, kvEscape, kvEnd)
}

// AppendKVKey appends the encoding of a key or, with fewer strings, of a prefix of keys. No strings: the prefix of all.
func AppendKVKey(b []byte, parts ...string) []byte {
	for _, p := range parts {
		b = AppendKVString(b, p)
	}
	return b
}

// NextKVString takes the first string off an encoded key and appends it to dst; ok is false where none is there in its one
// encoding.
func NextKVString(dst, key []byte) (part, rest []byte, ok bool) {
	for {
		i := bytes.IndexByte(key, kvEscape)
		if i < 0 || i+1 >= len(key) {
			return dst, nil, false
		}
		dst = append(dst, key[:i]...)
		switch key[i+1] {
		case kvEnd:
			return dst, key[i+2:], true
		case kvZero:
			dst = append(dst, 0)
		default:
			return dst, nil, false
		}
		key = key[i+2:]
	}
}

// KVKeyParts are the strings of an encoded key; nil where it is none.
func KVKeyParts(key []byte) []string {
	var parts []string
	for len(key) > 0 {
		p, rest, ok := NextKVString(nil, key)
		if !ok {
			return nil
		}
		parts = append(parts, string(p))
		key = rest
	}
	return parts
}

// ValidKVKey says whether b is the encoding of a key: 1 to 16 strings of at most 256 bytes of UTF-8 each.
func ValidKVKey(b []byte) bool {
	var buf [MaxKVString + 1]byte
	if len(b) > maxKVEncoded {
		return false
	}
	n := 0
	for ; len(b) > 0; n++ {
		part, rest, ok := NextKVString(buf[:0], b)
		if !ok || n == MaxKVStrings || len(part) > MaxKVString || !utf8.Valid(part) {
			return false
		}
		b = rest
	}
	return n > 0
}

// validKeys judges keys_if_undelivered: at most 16 keys, none of them twice.
func validKeys(keys [][]byte) (limit int64, ok bool) {
	if len(keys) > MaxKVKeys {
		return MaxKVKeys, false
	}
	for i, k := range keys {
		if !ValidKVKey(k) {
			return 0, false
		}
		for _, other := range keys[:i] {
			if bytes.Equal(k, other) {
				return 0, false
			}
		}
	}
	return 0, true
}
