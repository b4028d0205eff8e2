// Package group is one Raft group on one node.
package group
