//go:build !linux

package cluster

func lowerPriority(int) {}
