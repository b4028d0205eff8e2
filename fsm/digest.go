package fsm

import "crypto/sha256"

// Digest is the SHA-256 of what WriteTo writes: of the logical records in their canonical order and of nothing that differs
// between nodes (slots, chunks, free lists, garbage). Equal states of one snapshot format have equal digests.
func (v *View) Digest() (sum [32]byte) {
	h := sha256.New()
	_, _ = v.WriteTo(h) // a hash never fails to write
	h.Sum(sum[:0])
	return sum
}
