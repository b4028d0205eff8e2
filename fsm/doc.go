// Package fsm is the replicated state of one group and its rules: what every node computes from the log, and nothing else.
package fsm
