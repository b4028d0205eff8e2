package wire

import "math"

func (d *dec) delivered(v *Delivered) {
	old := *v
	*v = Delivered{}
	n := d.open(16)
	if d.req(&n, 1) {
		v.ID = d.id()
	}
	if d.req(&n, 2) {
		v.Token = d.id()
	}
	if d.req(&n, 3) {
		v.Attempt = int32(d.int(bits32))
	}
	if d.req(&n, 4) {
		v.LeaseLeftMillis = d.int(bits64)
	}
	if d.req(&n, 5) {
		v.Body = d.bytes()
	}
	if d.opt(&n, 6) {
		v.TaskID = d.optID()
	}
	if d.opt(&n, 7) {
		v.Kind = d.optString(old.Kind)
	}
	if d.opt(&n, 8) {
		v.ContentType = d.optString(old.ContentType)
	}
	if d.opt(&n, 9) {
		v.Headers = d.headers(old.Headers)
	}
	if d.req(&n, 10) {
		v.Priority = uint8(d.uint(math.MaxUint8))
	}
	if d.opt(&n, 11) {
		v.Key = d.optBytes()
	}
	if d.req(&n, 12) {
		v.EnqueuedAt = d.int(bits64)
	}
	if n == 0 {
		return
	}
	if d.opt(&n, 13) {
		v.TimeoutMillis = d.optInt(bits64)
	}
	if d.opt(&n, 14) {
		v.Redrives = int32(d.optInt(bits32))
	}
	if d.opt(&n, 15) {
		v.Queue = d.optString(old.Queue)
	}
	if d.opt(&n, 16) {
		v.AtMostOnce = d.optBool()
	}
	d.close(n)
}

func (d *dec) deliveries(old []Delivered) []Delivered {
	v := sized(old, d.array(MaxLease))
	if d.strings == nil && len(v) > 2 {
		d.strings = new(Strings)
	}
	for i := range v {
		d.delivered(&v[i])
	}
	return v
}

func (d *dec) leased(v *Leased) {
	messages := v.Messages
	*v = Leased{}
	n := d.open(2)
	if d.req(&n, 1) {
		v.Messages = d.deliveries(messages)
	}
	if d.req(&n, 2) {
		d.at(&v.At)
	}
	d.close(n)
}

func (d *dec) delivery(v *Delivery) {
	messages := v.Messages
	*v = Delivery{}
	n := d.open(2)
	if d.req(&n, 1) {
		v.Sub = uint32(d.uint(math.MaxUint32))
	}
	if d.req(&n, 2) {
		v.Messages = d.deliveries(messages)
	}
	d.close(n)
}

func (d *dec) started(v *Started) {
	tokens := v.Tokens
	*v = Started{}
	n := d.open(2)
	if d.req(&n, 1) {
		v.Sub = uint32(d.uint(math.MaxUint32))
	}
	if d.req(&n, 2) {
		v.Tokens = d.tokens(tokens, MaxTokens)
	}
	d.close(n)
}

func (d *dec) tokens(old []string, most int) []string {
	v := sized(old, d.array(most))
	if d.strings == nil && len(v) > 2 {
		d.strings = new(Strings)
	}
	for i := range v {
		v[i] = d.id()
	}
	return v
}

func (d *dec) ack(v *Ack) {
	then := v.Then
	*v = Ack{}
	n := d.open(4)
	if d.req(&n, 1) {
		v.Token = d.id()
	}
	if d.opt(&n, 2) {
		v.Result = d.result()
	}
	if d.opt(&n, 3) {
		v.Then = sized(then, d.optArray(MaxBatch))
		for i := range v.Then {
			t := &v.Then[i]
			m := d.open(2)
			if d.req(&m, 1) {
				t.Queue = d.string(t.Queue)
			}
			if d.req(&m, 2) {
				d.message(&t.Message)
			}
			d.close(m)
		}
	}
	if d.opt(&n, 4) {
		v.Mapping = d.optUint()
	}
	d.close(n)
}

func (d *dec) acked(v *Acked) {
	*v = Acked{}
	n := d.open(3)
	if d.opt(&n, 1) {
		v.Duplicate = d.optBool()
	}
	if d.opt(&n, 2) {
		v.Result = d.result()
	}
	if d.req(&n, 3) {
		d.at(&v.At)
	}
	d.close(n)
}

func (d *dec) nack(v *Nack) {
	*v = Nack{}
	n := d.open(5)
	if d.req(&n, 1) {
		v.Token = d.id()
	}
	if d.opt(&n, 2) {
		v.Error = d.optString("")
	}
	if d.opt(&n, 3) {
		delay := d.int(bits64)
		v.DelayMillis = &delay
	}
	if d.opt(&n, 4) {
		v.Permanent = d.optBool()
	}
	if d.opt(&n, 5) {
		v.Mapping = d.optUint()
	}
	d.close(n)
}

func (d *dec) nacked(v *Nacked) {
	*v = Nacked{}
	n := d.open(3)
	if d.opt(&n, 1) {
		v.Dead = d.optBool()
	}
	if d.opt(&n, 2) {
		v.DueAt = d.optInt(bits64)
	}
	if d.req(&n, 3) {
		d.at(&v.At)
	}
	d.close(n)
}

func (d *dec) extend(v *Extend) {
	*v = Extend{}
	n := d.open(2)
	if d.req(&n, 1) {
		v.Token = d.id()
	}
	if d.opt(&n, 2) {
		v.LeaseMillis = d.optInt(bits64)
	}
	d.close(n)
}

func (d *dec) extended(v *Extended) {
	*v = Extended{}
	n := d.open(2)
	if d.req(&n, 1) {
		v.LeaseLeftMillis = d.int(bits64)
	}
	if d.req(&n, 3) {
		d.at(&v.At)
	}
	d.close(n)
}

func (d *dec) release(v *Release) {
	*v = Release{}
	n := d.open(1)
	if d.req(&n, 1) {
		v.Token = d.id()
	}
	d.close(n)
}

func (d *dec) ok(v *OK) {
	*v = OK{}
	n := d.open(2)
	if d.req(&n, 1) {
		d.at(&v.At)
	}
	if d.opt(&n, 2) {
		v.Duplicate = d.optBool()
	}
	d.close(n)
}
