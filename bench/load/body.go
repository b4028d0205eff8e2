package load

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"time"
)

// A message's body says which one it is, so that a consumer can tell what it got:
//
//	0        8       16          24        28
//	┌────────┬───────┬───────────┬─────────┬─────────────┐
//	│sequence│  run  │due, ns    │CRC32C   │ filler …    │
//	└────────┴───────┴───────────┴─────────┴─────────────┘
//
// due is when the message was or should have been sent, in ns since the run's start, for latency. The checksum covers
// all the rest.
const (
	bodyHead = 28
	// MinSize is the smallest body the load generator can send.
	MinSize = 32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// filler makes a body of the size with random bytes behind its head.
func filler(r *rand.Rand, size int) []byte {
	b := make([]byte, size)
	for i := bodyHead; i < size; i++ {
		b[i] = byte(r.Uint32())
	}
	return b
}

func bodySum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:24], castagnoli), castagnoli, b[bodyHead:])
}

// stamp makes b the body of one message and returns its checksum. Some of the filler changes with the message too.
func stamp(b []byte, run, seq uint64, due time.Duration) uint32 {
	binary.BigEndian.PutUint64(b, seq)
	binary.BigEndian.PutUint64(b[8:], run)
	binary.BigEndian.PutUint64(b[16:], uint64(due))
	if len(b) >= bodyHead+8 {
		binary.BigEndian.PutUint64(b[len(b)-8:], seq*0x9E3779B97F4A7C15)
	}
	sum := bodySum(b)
	binary.BigEndian.PutUint32(b[24:], sum)
	return sum
}

// readBody checks a received body against its own checksum and says which message of the run it is.
func readBody(b []byte, run uint64, size int) (seq uint64, due time.Duration, sum uint32, err error) {
	got, seq, err := ReadBody(b, size)
	if err != nil {
		return 0, 0, 0, err
	}
	if got != run {
		return 0, 0, 0, fmt.Errorf("a message of another run was received (%x, this is %x)", got, run)
	}
	return seq, time.Duration(binary.BigEndian.Uint64(b[16:])), binary.BigEndian.Uint32(b[24:]), nil
}

// NewBody makes the body of one message, due at once, for those that send beside the workloads. size is MinSize and more.
func NewBody(run, seq uint64, size int) []byte {
	b := filler(rand.New(rand.NewPCG(run, seq)), size)
	stamp(b, run, seq, 0)
	return b
}

// ReadBody checks a body against its own checksum and says which message of which run it is.
func ReadBody(b []byte, size int) (run, seq uint64, err error) {
	if len(b) != size || size < MinSize {
		return 0, 0, fmt.Errorf("a body of %d bytes was received; all have %d", len(b), size)
	}
	sum := binary.BigEndian.Uint32(b[24:])
	if got := bodySum(b); got != sum {
		return 0, 0, fmt.Errorf("a body with checksum %08x was received; its head says %08x", got, sum)
	}
	return binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b), nil
}
