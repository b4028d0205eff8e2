// Package fsmtest is a second, slow and plain implementation of the replicated state machine, with a generator of
// random entries and a comparer that holds package fsm to it. It is for tests and benchmarks only.
//
//	           seed
//	            │
//	            ▼
//	        Generator ◀── looks for live tokens, dead letters, ends ──┐
//	            │ entry                                               │
//	    ┌───────┴────────┐                                            │
//	    ▼                ▼                                            │
//	fsm.State ◀─Cut─▶ snapshot     Model (slices, walked) ────────────┘
//	    │ outcomes, leases, queries  │
//	    └───────────▶ Pair ◀─────────┘      different: shrink the steps, print them
//
// Model knows the contract and nothing of how fsm keeps its state: of package fsm it uses the values (operations,
// options, outcomes, ids) and nothing else. Whoever changes the model must not look into fsm for the answer: a
// disagreement is settled by the contract, and where the contract is silent by a decision that is written down here.
// It is pure as fsm is: the same entries give the same answers.
//
// # What is compared
//
// After each entry: every outcome with all of its fields, the leases handed out in their order with token, consumer
// and attempt, which leases ended and how, and whether due moves remain. Now and then (and at each step of a
// shrunk failure): the state's own Check, clock, NextDue, queues, options, counters, every live message and dead letter
// with its fields, every lease as its worker sees it, status and result of every task by both of its names, sessions,
// remembered requests, consumers and their leases, and the counts in Memory. A cut writes a snapshot, restores it, wants
// equal digests and equal bytes from the restored state, and goes on with that. A view that is held while entries go on
// must be written as it was. In the end the log is applied to an empty state, which must have the same digest.
//
// Not compared: Info.Headers order beyond what was given, QueueStats.Refused, Bytes (but for zero when empty) and
// OldestEnqueuedAt, Effects.Tasks and Effects.Ready, which tell a leader whom to wake and are not promises.
//
// # Using it
//
//	go test ./fsm/fsmtest                                          a slice with a drawn seed, printed
//	go test ./fsm/fsmtest -run TestModel -seed 7 -seeds 1          one seed again
//	go test ./fsm/fsmtest -run TestModel -seeds 20000 -ops 500     a campaign (set -timeout)
//
// A history checker replays a log through Model alone: DecodeEntry, then Apply, then compare with what clients saw.
//
// # Decisions
//
// Where the contract leaves a choice, this is the reading (2026-11):
//
// DECISIONS
package fsmtest
