//go:build !chaos && !wasip1

package store

// walSegmentBytes is where a chaos build lets its harness have smaller segments.
func walSegmentBytes() uint64 { return segmentBytes }
