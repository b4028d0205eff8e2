// Profile says where the time of one message goes in three nodes under a workload: `make profile`.
//
//	nodes (built with -tags profile) ◀── load ──┐
//	   │  CPU, allocations, metrics of the first run      ▶ files, table of areas
//	   └─ block, mutex, execution trace of a second one   ▶ files
//
// The profiles are files for go tool pprof and go tool trace. Out of the CPU profile of each node it makes a table: every
// sampled stack is put to one area, the first of a list of which one of its functions is a part, in µs a message. Out of
// the metrics it makes another, of the steps that a message waits for. Both go into a page, between marks that name the
// workload, so that the page has the last figures of each.
//
// # Decisions
//
//   - 2026-11: block and mutex profiles and the trace come from a run of their own. They cost enough to change what the CPU
//     profile would say.
//   - 2026-11: profiles are had from a build of its own, -tags profile. A node that anybody can ask for its profile, or that can
//     be told to write one, is one that anybody can slow down.
package main
