package fsm

import "encoding/binary"

// Numbers of the operations of schedules.
const (
	opCreateSchedule uint8 = 70 + iota
	opSetSchedule
	opDeleteSchedule
	opFireSchedule
)

func (*CreateSchedule) opNumber() uint8 { return opCreateSchedule }
func (*SetSchedule) opNumber() uint8    { return opSetSchedule }
func (*DeleteSchedule) opNumber() uint8 { return opDeleteSchedule }
func (*FireSchedule) opNumber() uint8   { return opFireSchedule }

// scheduleOps holds one of each operation, so that decoding allocates nothing.
type scheduleOps struct {
	create CreateSchedule
	set    SetSchedule
	delete DeleteSchedule
	fire   FireSchedule
}

func appendSchedule(b []byte, r *Request, c *Schedule) []byte {
	b = appendRequest(b, r)
	b = appendBytes(appendBytes(appendBytes(appendBytes(b, c.Name), c.Queue), c.Cron), c.Zone)
	b = binary.AppendVarint(b, c.JitterMillis)
	b = append(b, byte(c.Policy))
	b = appendBool(appendBool(b, c.Paused), c.AutoCreate)
	return appendMessage(b, &c.Message)
}

func appendFire(b []byte, o *FireSchedule) []byte {
	b = appendUvarint(appendBytes(b, o.Name), o.Generation)
	b = binary.AppendVarint(binary.AppendVarint(b, o.At), o.Next)
	return binary.AppendVarint(appendBool(b, o.Fire), o.Skipped)
}

func (d *Decoder) schedule(r *Request, c *Schedule) {
	d.request(r)
	c.Name, c.Queue, c.Cron, c.Zone = d.bytes(), d.bytes(), d.bytes(), d.bytes()
	c.JitterMillis = d.varint()
	c.Policy = MissedPolicy(d.byte())
	c.Paused, c.AutoCreate = d.bool(), d.bool()
	d.message(&c.Message)
}

// CreateSchedule reads a CreateSchedule.
func (d *Decoder) CreateSchedule(op *CreateSchedule) {
	d.take(opCreateSchedule)
	d.schedule(&op.Request, &op.Schedule)
}

// SetSchedule reads a SetSchedule.
func (d *Decoder) SetSchedule(op *SetSchedule) {
	d.take(opSetSchedule)
	d.schedule(&op.Request, &op.Schedule)
}

// DeleteSchedule reads a DeleteSchedule.
func (d *Decoder) DeleteSchedule(op *DeleteSchedule) {
	d.take(opDeleteSchedule)
	d.request(&op.Request)
	op.Name = d.bytes()
}

// FireSchedule reads a FireSchedule.
func (d *Decoder) FireSchedule(op *FireSchedule) {
	d.take(opFireSchedule)
	op.Name, op.Generation = d.bytes(), d.uvarint()
	op.At, op.Next = d.varint(), d.varint()
	op.Fire, op.Skipped = d.bool(), d.varint()
}

// template reads a message that stands alone, as a schedule keeps it. false: it is damaged.
func (d *Decoder) template(b []byte, m *Message) bool {
	d.data, d.pos, d.err, d.op = b, 0, nil, opCreateSchedule
	d.message(m)
	return d.err == nil && d.pos == len(b)
}
