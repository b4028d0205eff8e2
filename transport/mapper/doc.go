// Package mapper makes messages for other queues out of those of queues that have map_to, on the node that leads.
//
//	Broker.Targets ──▶ look, twice a second while this node leads: a runner for each queue, none where it does not lead
//	                                  │
//	runner ──▶ Broker.Consume ──▶ evaluate ──▶ ack with what it has come to as then, and the mapping's generation
//	            a worker as any,     │                   │
//	            credit = concurrency │                   ├─ another mapping by now ──▶ back to the queue, free; look at once
//	                                 │                   └─ the other queue is full ──▶ wait, with the lease, and ack again
//	                                 └─ it fails ──▶ dead letter, reason mapping, with line and column
//
// # What is promised
//
// What a message comes to is enqueued in the entry of the log that ends the message: all of it once, or none of it, over any death of a
// leader. It is of the mapping that the queue has when that entry is applied: the state compares generations, and refuses what another has
// made. Evaluating happens before anything is proposed, and may happen more than once.
//
// Whoever has led and does not know yet that he does so no longer does no harm: his leases are those of any worker. Before each
// evaluation it is asked whether this node leads; where it does not, the message goes back, free, and the round ends.
//
// # What an error means
//
//	evaluation                          dead letter, reason mapping: "map_to: 2:7: …"
//	what was made is not valid, does    the same: "map_to: …"
//	not fit the other queue's schema,
//	or would never fit in that queue
//	no result in time                   nack: the queue's retry policy
//	other queue full or missing, no     wait a tenth of a second, then twice as long each time up to five seconds, and ack again; the
//	room on disk, no leader             message is out meanwhile, at no cost of an attempt
//	lease lost, task cancelled          nothing: somebody else has it, or nobody wants it
//
// Where what is made is nothing (nil, an empty list) the message is acked and is done.
//
// # Bounds
//
// the first 500 queues by name, as far as package mapping has room for their expressions (each beyond is not mapped, and says so); Concurrency
// messages a queue at once; what a message comes to, by package mapping;
// queues that lie behind one another, by the state, which allows no ring.
//
// # Stopping
//
// When this node leads no longer, or stops, evaluations are cancelled at once and their messages given back, free. An ack that is on its
// way is applied or not: its token decides.
//
// # Decisions
//
// 2026-11: leases and acks come through the SDK, from within the node, as those of push do: extension, fencing, answers after a change of
// leadership are what they are for every worker.
//
// 2026-11: a full queue is waited for with the leases in hand, so that as many messages as run at once show as being worked on. Rejected:
// giving them back, which costs an attempt after sixteen times, and would kill what is only early.
package mapper
