// Package testbin builds the test binary of a package, runs some of its tests and says what came of it. bench/mutants and bench/cases
// judge by that, so all ways in which a run of tests can end without a test having said anything are told apart from those in
// which one has:
//
//	passed                         a test ran, and all that ran passed
//	failed                         a test ran and failed, or the process panicked in the midst of one
//	does not build, ran no test,   nothing is known: neither that what the tests watch over holds, nor that it does not
//	took too long, ended before
//
// A skipped test is none that ran.
//
// # Decisions (2026-11)
//
// A test binary is built by itself and then run, rather than by `go test`: what failed to build must not look like a failed test.
//
// What is read is the text of -test.v and not test2json's: it is what the binary itself writes, so that nothing but the binary is needed.
package testbin
