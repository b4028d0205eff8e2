package wire

// AckBatch ends leases with success, of any queues, without results and without messages to enqueue: what an Ack for each would do, in
// the same order. Each lease is judged by itself.
type AckBatch struct {
	Tokens []string `cbor:"1,keyasint"` // 1–256
}

// AckedBatch answers AckBatch.
type AckedBatch struct {
	Others []AckOutcome `cbor:"1,keyasint,omitempty"` // of the tokens that are not simply done, by rising index
	At     At           `cbor:"2,keyasint"`
}

// AckOutcome is one token's.
type AckOutcome struct {
	Index     int32   `cbor:"1,keyasint"`           // of the token in AckBatch, from 0
	Duplicate bool    `cbor:"2,keyasint,omitempty"` // done before
	Result    *Result `cbor:"3,keyasint,omitempty"` // with Duplicate: the one recorded first, if any
	Fault     *Fault  `cbor:"4,keyasint,omitempty"` // this token's alone
	Again     bool    `cbor:"5,keyasint,omitempty"` // judged, and the answer has no room for what comes with that: ack it alone, which tells
}

// Validate judges a batch of acks. One token that is none spoils it: nothing has been acked then.
func (a *AckBatch) Validate() *Fault {
	if n := len(a.Tokens); n < 1 || n > MaxAcks {
		return Invalid("tokens", "%d tokens; 1 to %d would be right", n, MaxAcks)
	}
	return checkTokens("tokens", a.Tokens)
}

func appendAckedBatch(b []byte, v *AckedBatch) []byte {
	p := len(b)
	b = append(b, majorMap|1)
	if len(v.Others) > 0 {
		b[p]++
		b = appendHead(append(b, 1), majorArray, uint64(len(v.Others)))
		for i := range v.Others {
			o := &v.Others[i]
			p := len(b)
			b = appendInt(append(b, majorMap|1, 1), int64(o.Index))
			b = optTrue(b, p, 2, o.Duplicate)
			if o.Result != nil {
				b[p]++
				b = appendResult(append(b, 3), o.Result)
			}
			if o.Fault != nil {
				b[p]++
				b = appendFault(append(b, 4), o.Fault)
			}
			b = optTrue(b, p, 5, o.Again)
		}
	}
	return appendAt(append(b, 2), &v.At)
}

func (d *dec) ackBatch(v *AckBatch) {
	tokens := v.Tokens
	*v = AckBatch{}
	n := d.open(1)
	if d.req(&n, 1) {
		v.Tokens = d.tokens(tokens, MaxAcks)
	}
	d.close(n)
}

func (d *dec) ackedBatch(v *AckedBatch) {
	others := v.Others
	*v = AckedBatch{}
	n := d.open(2)
	if d.opt(&n, 1) {
		v.Others = sized(others, d.optArray(MaxAcks))
		for i := range v.Others {
			d.ackOutcome(&v.Others[i])
		}
	}
	if d.req(&n, 2) {
		d.at(&v.At)
	}
	d.close(n)
}

func (d *dec) ackOutcome(v *AckOutcome) {
	*v = AckOutcome{}
	n := d.open(5)
	if d.req(&n, 1) {
		v.Index = int32(d.int(bits32))
	}
	if d.opt(&n, 2) {
		v.Duplicate = d.optBool()
	}
	if d.opt(&n, 3) {
		v.Result = d.result()
	}
	if d.opt(&n, 4) {
		v.Fault = new(Fault)
		d.fault(v.Fault)
	}
	if d.opt(&n, 5) {
		v.Again = d.optBool()
	}
	d.close(n)
}
