// Mutants shows that the tests find what they are there to find. It builds Quorate with one planted bug after the other
// (package fsm/mutant) and runs slices of the existing tests against each: whoever says that a layer of tests watches over
// a promise has to see it catch the fault that breaks it.
//
//	catalogue ──▶ control: each slice without a bug      must pass, or a catch would mean nothing
//	          └─▶ each bug × the slices that name it     a test must fail
//
//	go run ./bench/mutants                        all, and a table
//	go run ./bench/mutants -mutant 7 -layer unit  some
//
// A bug is caught by a slice when a test of it ran and failed. Nothing else counts: not a build that fails, not a process that
// ends before a test ran, not a time that ran out, not a slice in which no test ran or all were skipped. A bug that is not caught
// where the catalogue says so ends the program with status 1, and so does a slice that fails without a bug.
//
// A bug is in the catalogue with two layers at least, or with the one whose test is about nothing else. Tests in bench/chaos build
// their nodes with the bug of their own build.
//
// # Decisions (2026-11)
//
// Slices are the tests that everybody runs, not copies that were made for the bugs: a bug that no test found got a test of its
// kind there first.
//
// Binaries (bench/testbin) are without the race detector, which would double the time and is run elsewhere.
package main
