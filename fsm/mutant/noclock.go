//go:build !mutant_08

package mutant

// WallMillis is never called: only the build of TimeNowInApply has a clock.
func WallMillis() int64 { return 0 }
