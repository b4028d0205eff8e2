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
}

var modeBranches = []string{
	"overflow: drops a ready one",
	"overflow: drops a retrying one",
	"overflow: drops a scheduled one",
	"overflow: no room even so",
	"once: done when it is leased",
	"limit: the rate",
	"lease: one that waits finds nothing",
}
