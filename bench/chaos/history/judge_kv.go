package history

// version is what a key of the KV holds from an entry on.
type version struct {
	index   uint64
	body    string
	message string
	gone    bool
}

// writeKeys has the keys of a message that died get its body, once.
func (j *judge) writeKeys(m *message) {
	for _, key := range m.keys {
		j.written[key] = version{index: j.index, body: m.body, message: m.id}
		j.r.count("undelivered body kept under a key")
	}
	m.keys = nil
}

// keyHolds says whether a key has a value now, within an entry too.
func (j *judge) keyHolds(key string) bool {
	if v, ok := j.written[key]; ok {
		return !v.gone
	}
	v := j.kv[key]
	return len(v) > 0 && !v[len(v)-1].gone
}

// erase judges the deletion of a key.
func (j *judge) erase(e *Effect) {
	if j.repeated(e) {
		return
	}
	if !j.keyHolds(e.Name) {
		j.verdict("G14", nil, e, "not_found", "the key holds nothing")
		return
	}
	if j.verdict("G14", nil, e, "", "the key holds something") {
		j.written[e.Name] = version{index: j.index, gone: true}
		j.r.count("key of the KV deleted")
	}
}

// keyChanged takes note of what the log says of a key.
func (j *judge) keyChanged(e *Effect) { j.said[e.Name] = e }

// compareKeys holds what became of keys in an entry against what had to.
func (j *judge) compareKeys() {
	for key, want := range j.written {
		switch e := j.said[key]; {
		case e == nil && want.gone:
			j.blame("G6", nil, nil, "key %q was deleted in entry %d, and the log has it still", key, j.index)
		case e == nil:
			j.blame("G1", j.all[want.message], nil, "message %s died in entry %d, and its key %q does not hold its body", want.message, j.index, key)
		case e.Gone != want.gone:
			j.blame("G6", nil, e, "key %q is deleted in entry %d: %v, want %v", key, j.index, e.Gone, want.gone)
		case e.Body != want.body || e.Message != want.message:
			j.blame("G2", nil, e, "key %q holds another body than that of message %s, which died", key, want.message)
		}
		j.kv[key] = append(j.kv[key], want)
	}
	for key, e := range j.said {
		if _, ok := j.written[key]; !ok {
			j.blame("G6", nil, e, "key %q changes in entry %d, where nobody died who names it", key, j.index)
			j.kv[key] = append(j.kv[key], version{j.index, e.Body, e.Message, e.Gone})
		}
	}
	clear(j.written)
	clear(j.said)
}

// keyAt is what a key held after an entry.
func (j *judge) keyAt(key string, index uint64) (v version, ok bool) {
	for _, x := range j.kv[key] {
		if x.index > index {
			break
		}
		v, ok = x, true
	}
	return v, ok && !v.gone
}

// look compares what a linearizable read of a key saw with the log (G14), and with what was sent (G2).
func (c *checker) look(op *operation) {
	if op.class() == Unknown || op.ret.Index == 0 {
		return
	}
	v, ok := c.j.keyAt(op.call.Name, op.ret.Index)
	switch {
	case op.class() == Refused && op.ret.Code == "not_found" && ok:
		c.blame("G14", op, "a key is not found in an entry where the log has it, with the body of message "+v.message)
	case op.class() != OK:
	case !ok:
		c.blame("G14", op, "a key is read that the log does not have there")
	case op.ret.Body != v.body || op.ret.Message != v.message:
		c.blame("G14", op, "a key is read with another value than that of message "+v.message)
	default:
		c.r.count("key of the KV read")
	}
}

// keysAtEnd demands that every key that holds something was read once all had ended (G1).
func (c *checker) keysAtEnd() {
	read := map[string]bool{}
	for _, op := range c.ops {
		if op.call.Op == Look && op.class() != Unknown && op.ret.Index >= c.j.drained {
			read[op.call.Name] = true
		}
	}
	for key := range c.j.kv {
		if _, ok := c.j.keyAt(key, ^uint64(0)); ok && !read[key] {
			c.r.blame("G1", "", "key "+key+" holds the body of a message that died, and nobody could read it at the end")
		}
	}
}
