package fsmtest

import "github.com/quorate/quorate/fsm"

// Of the order of messages, of limits, and of their options.
var queueAnswers = []Answer{
	{"Enqueue", fsm.QueueFull, fsm.FieldDepth},
	{"Enqueue", fsm.QueueFull, fsm.FieldBytes},
	{"Enqueue", fsm.TooLarge, fsm.FieldBytes},
	{"Enqueue", fsm.InvalidArgument, fsm.FieldPriority},
	{"SetQueue", fsm.FailedPrecondition, fsm.FieldOrdering},
	{"SetQueue", fsm.InvalidArgument, fsm.FieldDeadLetterQueue},
	{"SetQueue", fsm.OK, fsm.FieldNone},
	{"CreateQueue", fsm.AlreadyExists, fsm.FieldOptions},
}

// Of dead letters.
var deadAnswers = []Answer{
	{"DeadRequeue", fsm.OK, fsm.FieldNone},
	{"DeadRequeue", fsm.QueueFull, fsm.FieldDepth},
	{"DeadRequeue", fsm.QueueFull, fsm.FieldBytes},
	{"DeadRequeue", fsm.TooLarge, fsm.FieldBytes},
	{"DeadRequeue", fsm.FailedPrecondition, fsm.FieldOut},
	{"DeadRequeue", fsm.NotFound, fsm.FieldOrigin},
	{"DeadDelete", fsm.OK, fsm.FieldNone},
	{"DeadDelete", fsm.FailedPrecondition, fsm.FieldOut},
	{"DeadEdit", fsm.OK, fsm.FieldNone},
	{"DeadEdit", fsm.InvalidArgument, fsm.FieldEdit},
	{"DeadEdit", fsm.NotFound, fsm.FieldNone},
	{"DeadEdit", fsm.NotFound, fsm.FieldQueue},
	{"DeadPurge", fsm.OK, fsm.FieldNone},
}

var queueBranches = []string{
	"order: a fifo message waits",
	"order: a keyed message waits",
	"order: a retry is due at its old place",
	"order: released to its old place behind nobody",
	"order: the head of a group dies",
	"limit: as many are out as may be",
	"limit: paused",
	"limit: max_age is the ttl",
	"option: a lower depth than there is",
	"option: fewer in flight than are out",
	"option: a shorter dead letter retention",
	"option: a longer dead letter retention",
	"option: fewer dedup keys than there are",
	"option: fewer result bytes than there are",
}

var deadBranches = []string{
	"dead: moved",
	"dead: stays in a dead-letter queue",
	"dead: the dead-letter queue is missing",
	"dead: the dead-letter queue is full, depth",
	"dead: the dead-letter queue is full, bytes",
	"dead: the dead-letter queue is full, dead letters",
	"dead: the dead-letter queue is full, results",
	"dead: what was moved dies again",
	"dead: a worker has it",
	"requeue: edited",
	"requeue: from a dead-letter queue",
	"requeue: the origin is gone",
	"requeue: the origin is full, depth",
	"ack: closes a moved message",
	"ack: again, of a closed message",
	"ack: again, with a result pushed under the id that is the task's name",
	"dead: a repeat is answered, beside a result",
	"dead: a repeat is answered where it was moved, beside a result",
}
