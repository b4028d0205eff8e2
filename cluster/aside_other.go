//go:build !linux

package cluster

func lowerPriority(int) {}

func mainThread() bool { return false }
