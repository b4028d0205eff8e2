package wire

// BatchCreate makes a batch. Members are messages enqueued with its id; when it is sealed and all have ended, its callback is enqueued, exactly once, with the counts in the headers batch_id, batch_members, batch_succeeded, batch_dead and batch_cancelled (purged and deleted ones included). One that is not sealed within a week ends without.
type BatchCreate struct {
	Queue    string  `cbor:"1,keyasint"` // of the callback
	Callback Message `cbor:"2,keyasint"` // body ≤ 64 KiB, ≤ 59 headers; no task id, dedup key, KV keys or batch
	Request  Request `cbor:"3,keyasint"`
}

// BatchCreated answers BatchCreate.
type BatchCreated struct {
	Batch string `cbor:"1,keyasint"` // its id
	At    At     `cbor:"2,keyasint"`
}

// BatchSeal closes a batch: no more members. Sealed again: success, duplicate.
type BatchSeal struct {
	Batch   string  `cbor:"1,keyasint"`
	Request Request `cbor:"2,keyasint"`
}

// BatchShow asks for the counts of a batch.
type BatchShow struct {
	Batch string `cbor:"1,keyasint"`
	Stale bool   `cbor:"2,keyasint,omitempty"` // answer from this node, leader or not
}

// BatchIs answers BatchShow. A batch that is done is known for an hour.
type BatchIs struct {
	Batch      string `cbor:"1,keyasint"`
	Sealed     bool   `cbor:"2,keyasint,omitempty"`
	Members    int64  `cbor:"3,keyasint"` // added
	Open       int64  `cbor:"4,keyasint"` // not yet ended
	Succeeded  int64  `cbor:"5,keyasint"`
	Dead       int64  `cbor:"6,keyasint"`            // also those that were brought back since
	Cancelled  int64  `cbor:"7,keyasint"`            // purged and deleted ones included
	CreatedAt  int64  `cbor:"8,keyasint"`            // Unix ms, log time
	FinishedAt int64  `cbor:"9,keyasint,omitempty"`  // when the callback was enqueued
	EndsAt     int64  `cbor:"10,keyasint,omitempty"` // when it is forgotten; absent: sealed and not done
	Queue      string `cbor:"11,keyasint,omitempty"` // of the callback that is to come
	CallbackID string `cbor:"12,keyasint,omitempty"` // message id of the callback that has come
	At         At     `cbor:"13,keyasint"`
}
