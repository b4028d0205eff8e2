// Command peers measures Quorate and the systems that people would otherwise use, in one run, in turn, with the same work:
// NATS JetStream, RabbitMQ's quorum queues and Redis Streams. `make peers` installs them (scripts/setup-peers) and runs it.
//
//	      ┌──────────────── for each repeat, beginning with another system each time ────────────────┐
//	find ─▶ start servers ─▶ W1 … W5 (bench/load) ─▶ W6 ─▶ end them ─▶ start ─▶ W7 ─▶ end them, remove ─▶ medians, ratios,
//	      │  a fresh folder      each verified                         again                           │   RESULTS.md, .json, .svg
//	      └──────────────────────────────────────────────────────────────────────────────────────────┘
//
// It is a module of its own, so that the product does not depend on its peers' clients. After a change of the product's
// go.mod, `go mod tidy` here may be due.
//
// # Workloads
//
//	W1  confirmed enqueue: 8 producers, 256 unconfirmed each
//	W2  drain: a queue filled before, 8 consumers with a window of 256, each message acknowledged by itself
//	W3  both at once: 4 producers and 4 consumers, flat out; latency from send to receive
//	W4  both at 2,000 a second; latency from when a message was due
//	W5  one enqueue at a time
//	W6  1,000 enqueues a second, each tried again until it is confirmed; the leader of the queue is killed with SIGKILL;
//	    the longest time without a confirmation
//	W7  a million queued: the largest node's resident memory; all servers are killed and started again, and the time from
//	    then until a message was enqueued and one received
//
// For Quorate alone W4-FLOOR and W5-FLOOR are `quorate bench floor`, with --rate and without: raft, the log store and the nodes'
// transport under the same load without a broker, which W4 and W5 are to be held against.
//
// W1 to W5 are those of bench/load: each client library is fitted to load.Conn, and generator, bounds, latencies and
// ledger are the same code for all. Server CPU is user and system time of all processes of a system, helpers included, from
// /proc. Servers and load share the machine, as they share its disk: a client that needs much CPU costs its system too.
//
// # How each is set up, and its client used
//
// Servers run on free loopback ports, with their data in a folder of the run's own on a disk; memory file systems are
// refused. Everything not named is at its default.
//
//	Quorate      three nodes built from this tree, GOMAXPROCS=1; client.EnqueueAsync, Subscribe, AckAsync
//	JetStream    three nodes; work-queue stream on file with three replicas and one durable pull consumer. nats.go:
//	             PublishMsgAsync with the ack handler; Consume, which keeps its window full; acks with a reply, as DoubleAck
//	             does, none waited for. Clients ask the server that leads the stream first. Once with sync_interval always,
//	             which is what the others promise, and once with the default of two minutes.
//	RabbitMQ     three nodes in a cluster; a durable quorum queue with three members. amqp091-go: a connection and a channel a
//	             client, publisher confirms, prefetch, an ack a message; connected to the node that leads. AMQP does not answer
//	             acks: an ack counts when it has been handed over, and the queue must be empty at the end.
//	Redis        one node with appendfsync always: nothing is replicated, since replication of Redis confirms nothing. A
//	             stream with a consumer group. rueidis: what waits goes into pipelines of up to 128, two at once; XREADGROUP
//	             of up to 128; XACK and XDEL a message, in pipelines too.
//
// In W6 every attempt may take a second and is followed by the next. Quorate's and NATS's clients connect again by
// themselves; RabbitMQ's publisher is given that, and a new channel when the broker refuses on the old one. Quorate and
// JetStream tell a repeated message by its id, RabbitMQ stores it twice, which is counted and allowed.
//
// # Verified
//
// A benchmark that does not look whether the work was done measures something else. bench/load accounts for every
// message: lost, doubled, changed or invented ones are faults. Then the system's own count must be right: after W1 and W5
// as many as were confirmed, after W2 to W4 none. Of W1 and W5 a thousand messages are read back and their checksums
// compared; after W6 every confirmed message is; after W7's restart all must be there. A measurement with a fault does not
// count, is listed, and makes the command fail at its end. So does, at once, a system that was asked for by name and is
// not installed; with --systems all it is left out and named.
//
// # Bounds
//
// Every start, workload, check and call has its time; a system that exceeds it has a fault, and the run goes on with the
// next. Its servers are killed then, so that no call waits for them. Processes are ended by their id and die with this one;
// the folder is removed at the end, on errors and on interrupts too. A run that is interrupted, or that --within does not
// let begin another repeat, reports the repeats that are whole and says so.
//
// # Decisions
//
// 2026-11: One run measures everything, and systems take turns in a new order each repeat. Figures of different runs do not
// compare: shared machines differ by a factor of two from hour to hour. Hence ratios of medians.
//
// 2026-11: RabbitMQ, Redis and the JetStream server are what their users run, not containers or mocks: NATS built from its
// pinned module, the others Debian's packages, whose services are not started.
//
// 2026-11: Redis deletes what it acknowledges, though its groups do not ask for it: without, a stream is a log that grows
// for ever, and not the same work. Deleting many ids by one command would be cheaper; but a worker acknowledges when it is
// done with a message, and all others here pay for each.
//
// 2026-11: The chart is drawn by a hundred lines of our own: no plotting library writes bars with their ratios beside them,
// and its bytes can be compared with a golden file.
package main
