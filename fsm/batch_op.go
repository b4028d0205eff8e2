package fsm

// Numbers of the operations on batches.
const (
	opBatchCreate uint8 = 61
	opBatchSeal   uint8 = 62
)

type (
	// BatchCreate makes a batch; Outcome.ID is its id. Members are messages enqueued with it in Message.Batch.
	BatchCreate struct {
		Request    Request
		Queue      []byte  // of the callback
		AutoCreate bool    // make that queue with default options if it is missing
		Callback   Message // enqueued when the batch is sealed and its last member has ended
	}
	// BatchSeal closes a batch: no more members. One that was sealed before: OK, Outcome.Duplicate.
	BatchSeal struct {
		Request Request
		Batch   ID
	}
)

func (*BatchCreate) opNumber() uint8 { return opBatchCreate }
func (*BatchSeal) opNumber() uint8   { return opBatchSeal }

func appendBatchCreate(b []byte, o *BatchCreate) []byte {
	b = appendBool(appendBytes(appendRequest(b, &o.Request), o.Queue), o.AutoCreate)
	return appendMessage(b, &o.Callback)
}

func appendBatchSeal(b []byte, o *BatchSeal) []byte {
	return appendID(appendRequest(b, &o.Request), o.Batch)
}

// BatchCreate reads a BatchCreate.
func (d *Decoder) BatchCreate(op *BatchCreate) {
	d.take(opBatchCreate)
	d.request(&op.Request)
	op.Queue = d.bytes()
	op.AutoCreate = d.bool()
	d.message(&op.Callback)
}

// BatchSeal reads a BatchSeal.
func (d *Decoder) BatchSeal(op *BatchSeal) {
	d.take(opBatchSeal)
	d.request(&op.Request)
	op.Batch = d.id()
}
