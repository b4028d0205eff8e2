// Cases is the list of what users of other queues and brokers have been bitten by in the field, 66 stories with a number each, and of the
// tests of ours that show each of them to end well here. Comments of tests name the numbers: (C38).
//
//	go run ./bench/cases                    the list
//	go run ./bench/cases -run 20 -seed 7    twenty of them by lot, one after the other, and a table
//	go run ./bench/cases -case 38           one
//
// The lot is drawn among those that have tests, by a seed that is printed; the same seed draws the same cases from the same list. Each
// case's tests are built and run by themselves (bench/testbin), and it has been shown when every test that the list names for it ran and
// passed. One that was skipped, or is not there any more, has not run, and fails the case like one that failed; so does a test binary
// that does not build, ends early or takes too long.
//
// # The list
//
// A case stands in our own words. Where a part of it cannot be shown yet, since what it is about does not exist yet, the list says which
// and what it waits for; a case of which nothing can be shown has no tests and is never drawn.
//
// # Decisions (2026-11)
//
// The tests are those that everybody runs; nothing is written for the list alone.
//
// A test is named in full, down to the subtest, rather than by a pattern: a pattern goes on matching when half of what it meant is gone.
//
// The list's own test looks tests up in the sources, under the build tags that they need, and not with `go test -list`: that would link a
// dozen test binaries to learn what the sources say, and knows nothing of subtests.
package main
