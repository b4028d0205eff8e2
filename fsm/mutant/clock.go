//go:build mutant_08

package mutant

import "time"

// WallMillis is what nothing that applies entries may know: the time. Only the build of this bug has a clock.
//
//go:noinline
func WallMillis() int64 { return time.Now().UnixMilli() }
