// Package proc runs Quorate nodes as real processes on loopback, for benchmarks, fault tests and the demo.
//
// A Cluster owns a folder with one data directory and one log file a node, and the ports of its nodes, which stay the
// same over restarts. It starts, kills (SIGKILL), stops (SIGTERM) and restarts nodes, tells who leads by asking the nodes
// over HTTP, and adds up the CPU time of every process it has run, ended ones included. It signals only processes it
// started, by their id.
//
// Process is what a Node has of any program; bench/peers runs other systems' servers with it.
package proc
