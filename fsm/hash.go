package fsm

import (
	"crypto/sha256"
	"encoding/binary"
)

// The hashes are the first 16 bytes of SHA-256 over a domain string and then each part behind its length (8 bytes, big
// endian), so that no two different inputs of one kind, and no inputs of two kinds, are hashed as the same bytes. They
// are in the log and in snapshots: never change them.
const (
	domainDedup   = "quorate/dedup/1"
	domainContent = "quorate/content/1"
	domainTask    = "quorate/task/1"

	domainSchedule = "quorate/schedule/1"
)

// HashDedup is what the log carries in place of a dedup key.
func HashDedup(key []byte) [16]byte { return hashParts(domainDedup, key, nil, 1) }

// HashContent tells whether two messages of one dedup key are the same: the hash of (kind, body).
func HashContent(kind, body []byte) [16]byte { return hashParts(domainContent, kind, body, 2) }

// HashTask is the name under which a task is found once its message is gone: the hash of (queue, task id).
func HashTask(queue string, task []byte) [16]byte {
	var q [MaxQueueName]byte
	return HashTaskBytes(append(q[:0], queue...), task)
}

// HashTaskBytes is HashTask for a queue name held in bytes.
func HashTaskBytes(queue, task []byte) [16]byte { return hashParts(domainTask, queue, task, 2) }

func hashParts(domain string, p, q []byte, n int) (out [16]byte) {
	// Names are short: gather them on the stack and hash in one call, which is half the price of the streaming form.
	var small [320]byte
	if len(domain)+16+len(p)+len(q) <= len(small) {
		b := append(small[:0], domain...)
		b = binary.BigEndian.AppendUint64(b, uint64(len(p)))
		b = append(b, p...)
		if n == 2 {
			b = binary.BigEndian.AppendUint64(b, uint64(len(q)))
			b = append(b, q...)
		}
		sum := sha256.Sum256(b)
		return [16]byte(sum[:16])
	}
	h := sha256.New()
	b := append(small[:0], domain...)
	b = binary.BigEndian.AppendUint64(b, uint64(len(p)))
	_, _ = h.Write(b) // a hash never fails to write
	_, _ = h.Write(p)
	if n == 2 {
		_, _ = h.Write(binary.BigEndian.AppendUint64(small[:0], uint64(len(q))))
		_, _ = h.Write(q)
	}
	var sum [sha256.Size]byte
	return [16]byte(h.Sum(sum[:0])[:16])
}
