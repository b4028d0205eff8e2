package fsm

// Numbers of the operations on the KV and on batches.
const opKVDelete uint8 = 60

// KVDelete removes a key of the KV. Outcome: OK, or NotFound with FieldKV.
type KVDelete struct {
	Request Request
	Key     []byte // encoded, see AppendKVKey
}

func (*KVDelete) opNumber() uint8 { return opKVDelete }

func appendKVDelete(b []byte, o *KVDelete) []byte {
	return appendBytes(appendRequest(b, &o.Request), o.Key)
}

// KVDelete reads a KVDelete.
func (d *Decoder) KVDelete(op *KVDelete) {
	d.take(opKVDelete)
	d.request(&op.Request)
	op.Key = d.bytes()
}

// appendKeys writes the keys of a message that has some.
func appendKeys(b []byte, keys [][]byte) []byte {
	b = appendCount(b, len(keys), formatKeys)
	for _, k := range keys {
		b = appendBytes(b, k)
	}
	return b
}

// keys reads the keys of a message that has some.
func (d *Decoder) keys(dst [][]byte) [][]byte {
	n := d.count("keys", 1, formatKeys)
	if n == 0 {
		d.fail("%s: keys are present but none", opNames[d.op])
	}
	for range n {
		dst = append(dst, d.bytes())
	}
	return dst
}
