//go:build chaos && !wasip1

package store

import (
	"fmt"
	"os"
	"strconv"
)

// EnvSegment is how many bytes a WAL's segments have, 4096 or more, so that a short run begins, seals and drops many. Default: as in
// any build.
const EnvSegment = "QUORATE_CHAOS_SEGMENT_BYTES"

// walSegmentBytes is what the environment asks for. A harness that asks for what cannot be must not run without it.
func walSegmentBytes() uint64 {
	s := os.Getenv(EnvSegment)
	if s == "" {
		return segmentBytes
	}
	n, err := strconv.ParseUint(s, 10, 30)
	if err != nil || n < 4096 {
		panic(fmt.Sprintf("%s is %q, want a number of bytes from 4096 to 1 GiB", EnvSegment, s))
	}
	return n
}
