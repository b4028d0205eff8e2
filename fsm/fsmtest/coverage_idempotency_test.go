package fsmtest

import "github.com/quorate/quorate/fsm"

// What operations with idempotency keys must be seen to answer.
var (
	idemAnswers = []Answer{
		{"Idempotent", fsm.OK, fsm.FieldNone},
		{"Idempotent", fsm.AlreadyExists, fsm.FieldIdempotency},
		{"Idempotent", fsm.NotFound, fsm.FieldQueue},
		{"Idempotent", fsm.QueueFull, fsm.FieldDead},
	}
	idemBranches = []string{
		"idempotency: the first answer again",
		"idempotency: leases again",
		"idempotency: an answer that is not kept",
	}
)
