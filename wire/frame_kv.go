package wire

// KVGet reads one key of the KV.
type KVGet struct {
	Key   []string `cbor:"1,keyasint"`           // 1–16 strings of ≤ 256 bytes
	Stale bool     `cbor:"2,keyasint,omitempty"` // answer from this node, leader or not
}

// KVEntry is a key and its value, or in KVChanges its last change.
type KVEntry struct {
	Key        []string `cbor:"1,keyasint"`
	Value      Bytes    `cbor:"2,keyasint,omitempty"` // the body of the message that died; absent where it was not asked for
	ValueBytes int64    `cbor:"3,keyasint,omitempty"` // its length
	MessageID  string   `cbor:"4,keyasint,omitempty"` // of that message
	Position   uint64   `cbor:"5,keyasint"`           // of the change: positions rise
	ChangedAt  int64    `cbor:"6,keyasint"`           // Unix ms, log time
	EndsAt     int64    `cbor:"7,keyasint,omitempty"` // from then on the key is gone
	Deleted    bool     `cbor:"8,keyasint,omitempty"` // in KVChanges: the key is gone
	Expired    bool     `cbor:"9,keyasint,omitempty"` // with deleted: by the end of its time
}

// KVIs answers KVGet.
type KVIs struct {
	Entry KVEntry `cbor:"1,keyasint"`
	At    At      `cbor:"2,keyasint"`
}

// KVList lists keys in their order: string by string, bytes by bytes.
type KVList struct {
	Prefix []string `cbor:"1,keyasint,omitempty"` // the keys that begin with these strings; absent: all
	After  []string `cbor:"2,keyasint,omitempty"` // next of the page before
	Limit  int32    `cbor:"3,keyasint,omitempty"` // 1–1000, absent: 100
	Values bool     `cbor:"4,keyasint,omitempty"` // with values; a page then ends at 4 MiB of them
	Stale  bool     `cbor:"5,keyasint,omitempty"` // answer from this node, leader or not
}

// KVEntries answers KVList.
type KVEntries struct {
	Entries  []KVEntry `cbor:"1,keyasint"`
	Next     []string  `cbor:"2,keyasint,omitempty"` // where the next page begins; absent at the end. A page may be short, or empty, and yet not the last
	Position uint64    `cbor:"3,keyasint"`           // of the last change when the page was begun: watch from there
	At       At        `cbor:"4,keyasint"`
}

// KVDelete removes a key.
type KVDelete struct {
	Key     []string `cbor:"1,keyasint"`
	Request Request  `cbor:"2,keyasint"`
}

// KVWatch asks for changes behind a position. A key that was changed more than once since shows its last change alone. One that asks for a position whose deletions are not kept any more (10,000, for an hour) is refused with failed_precondition, field from: list again.
type KVWatch struct {
	Prefix     []string `cbor:"1,keyasint,omitempty"` // the keys that begin with these strings; absent: all
	From       uint64   `cbor:"2,keyasint"`           // changes behind this position; 0: from the first
	Now        bool     `cbor:"3,keyasint,omitempty"` // only those to come; from is 0. Answered at once where no wait is asked for
	Limit      int32    `cbor:"4,keyasint,omitempty"` // 1–1000 changes, absent: 100
	WaitMillis int64    `cbor:"5,keyasint,omitempty"` // for the first change, ≤ 10 minutes
}

// KVChanges answers KVWatch; no entries: none came within the wait.
type KVChanges struct {
	Entries  []KVEntry `cbor:"1,keyasint"` // by position, with values; ends at 4 MiB of them
	Position uint64    `cbor:"2,keyasint"` // watch on from there
	At       At        `cbor:"3,keyasint"`
}
