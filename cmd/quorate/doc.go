// Command quorate is the one binary: a cluster node (serve), a node in memory for development (dev), and the command line
// for producers, workers and operators.
//
// # Shape
//
// One file a noun or verb. A verb's RunE gets its flags from cobra, talks to the cluster through package client, and
// prints through an output that knows table and JSON. main only calls run and exits once, so that the program can be
// started from a test.
//
// # Exit codes
//
// 0 done, 1 refused or failed, 2 usage, 3 not found, 4 timed out, 5 unavailable. The reason goes to standard error; standard
// output holds results alone, so that a script can parse it or finds it empty.
//
// # Words
//
// What is wrong is said once, with what would be right, and not in a library's words: arguments and flags in arguments.go, settings in
// config.go, a leader that is not to be found, or was lost before it answered, in unreachable.go. An outcome that is not known is
// said to be so. A create says whether it made something (existing.go).
//
// # Configuration
//
// Every key of quorate.toml is a flag (client.addr is --client-addr) and an environment variable (QUORATE_CLIENT_ADDR).
// Flag over environment over file over default, resolved in one place (config.go); --print-config shows each value with
// where it came from. An unknown key, a bad value or a contradiction stops the start with the file, the line and what
// would be right.
//
// # Decisions
//
// 2026-11: no address off loopback is served, because there is neither authentication nor TLS yet; the check is in serve
// and dev, for all three listeners, and no flag turns it off.
//
// 2026-11: what begins with { is a schema itself and not its file's name: --schema '{"type":"object"}' is what people try first.
//
// 2026-11: `work` starts one process a message and gives it the body on standard input. Output beyond the message limit
// is a permanent failure, since a retry would only produce it again.
package main
