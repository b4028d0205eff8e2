package fsmtest

import "github.com/quorate/quorate/fsm"

// Of overflow, delivery at most once, and rates.
var modeAnswers = []Answer{
	{"SetQueue", fsm.FailedPrecondition, fsm.FieldDelivery},
	{"SetQueue", fsm.InvalidArgument, fsm.FieldOverflow},
	{"SetQueue", fsm.InvalidArgument, fsm.FieldDelivery},
	{"SetQueue", fsm.InvalidArgument, fsm.FieldRate},
	{"SetQueue", fsm.InvalidArgument, fsm.FieldBurst},
	{"SetQueue", fsm.InvalidArgument, fsm.FieldPushURL},
	{"SetQueue", fsm.InvalidArgument, fsm.FieldPushHeaders},
	{"SetQueue", fsm.InvalidArgument, fsm.FieldSchema},
	{"SetQueue", fsm.InvalidArgument, fsm.FieldMap},
	{"SetQueue", fsm.InvalidArgument, fsm.FieldMapTo},
	{"SetQueue", fsm.FailedPrecondition, fsm.FieldMapTo},
	{"Ack", fsm.FailedPrecondition, fsm.FieldMapping},
	{"Nack", fsm.FailedPrecondition, fsm.FieldMapping},
}

var modeBranches = []string{
	"overflow: drops a ready one",
	"overflow: drops a retrying one",
	"overflow: drops a scheduled one",
	"overflow: no room even so",
	"once: done when it is leased",
	"mapping: an ack of the one that there is",
	"mapping: a message dies of it",
	"mapping: set anew, and the same",
	"limit: the rate",
	"lease: one that waits finds nothing",
}
