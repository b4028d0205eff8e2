package fsmtest

import "github.com/quorate/quorate/fsm"

// Of limits and rates per key, of turns, and of single options.
var keyAnswers = []Answer{
	{"ChangeQueue", fsm.OK, fsm.FieldNone},
	{"ChangeQueue", fsm.InvalidArgument, fsm.FieldQueue},
	{"ChangeQueue", fsm.InvalidArgument, fsm.FieldOptions},
	{"ChangeQueue", fsm.NotFound, fsm.FieldQueue},
	{"ChangeQueue", fsm.FailedPrecondition, fsm.FieldOrdering},
	{"ChangeQueue", fsm.FailedPrecondition, fsm.FieldDelivery},
	{"ChangeQueue", fsm.InvalidArgument, fsm.FieldBurstPerKey},
	{"SetQueue", fsm.InvalidArgument, fsm.FieldInFlightPerKey},
	{"SetQueue", fsm.InvalidArgument, fsm.FieldRatePerKey},
	{"SetQueue", fsm.InvalidArgument, fsm.FieldBurstPerKey},
	{"SetQueue", fsm.InvalidArgument, fsm.FieldFairBy},
	{"SetQueue", fsm.InvalidArgument, fsm.FieldFairWeights},
}

var keyBranches = []string{
	"keys: idle, then open",
	"keys: idle, then full",
	"keys: idle, then held",
	"keys: open, then full",
	"keys: open, then held",
	"keys: full, then open",
	"keys: full, then held",
	"keys: held, then open",
	"keys: joins the ring",
	"keys: a turn is over",
	"keys: a turn is not over",
	"keys: a debt is over",
	"keys: matter from now on, with messages waiting",
	"keys: matter no more, with some parked",
	"keys: turns end, with messages waiting",
	"keys: the next of an ordered key",
	"keys: beyond the rates' horizon",
	"option: the same rate in other numbers, with a key whose time has come",
	"option: opens keys",
	"option: parks keys",
}
