package link

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"regexp"

	"github.com/quorate/quorate/cluster/store"
)

// Kind is what a connection carries after its handshake.
type Kind uint8

// Kinds are append-only.
const (
	KindRaft Kind = 1 // raft's own messages, of one group
	KindRPC  Kind = 2 // requests between nodes: join, status, digest, …
)

func (k Kind) String() string {
	switch k {
	case KindRaft:
		return "raft"
	case KindRPC:
		return "rpc"
	default:
		return fmt.Sprintf("kind %d", uint8(k))
	}
}

// Self is what a node says of itself in every handshake.
type Self struct {
	Cluster     store.UUID // zero: belongs to none yet
	UUID        store.UUID
	Label       string
	Incarnation uint64
	Nonce       uint64 // chosen at random at each start: tells two processes with one identity apart
}

// Code is why a handshake was refused.
type Code uint8

// Codes are append-only.
const (
	Accepted       Code = 0
	BadVersion     Code = 1 // the other speaks another version of this protocol
	WrongCluster   Code = 2
	WrongTarget    Code = 3 // another node lives at this address
	OldIncarnation Code = 4 // a later start of the same node has been seen
	SecondProcess  Code = 5 // another process runs under the same identity
	NoSuchService  Code = 6 // unknown kind or group
	Busy           Code = 7
	NotReady       Code = 8 // this node belongs to no cluster yet
	Refused        Code = 9 // for a reason that the text tells
)

// RefusedError is the other side's refusal, or ours of it.
type RefusedError struct {
	Code   Code
	Reason string
	Addr   string // of the other side; empty where the caller tells it
}

func (e *RefusedError) Error() string {
	if e.Addr == "" {
		return "handshake refused: " + e.Reason
	}
	return fmt.Sprintf("handshake with %s refused: %s", e.Addr, e.Reason)
}

const (
	// Version is that of the handshake and of what follows it.
	Version = 1

	helloMagic = "QRTN"
	// helloFixed is the length of a hello without label and checksum:
	// magic 4 | version 1 | kind 1 | group 2 | cluster 16 | uuid 16 | target 16 | incarnation 8 | nonce 8 | label length 1
	helloFixed = 73
	// answerFixed is the length of an answer without label, reason and checksum:
	// magic 4 | version 1 | code 1 | reason length 2 | cluster 16 | uuid 16 | incarnation 8 | nonce 8 | label length 1
	answerFixed = 57

	// MaxLabel is the longest node label, in bytes.
	MaxLabel  = 64
	maxReason = 512
)

var labels = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// CheckLabel says what is wrong with a node's label.
func CheckLabel(s string) error {
	if len(s) > MaxLabel || !labels.MatchString(s) {
		return fmt.Errorf("node label %.80q: want 1 to %d letters, digits, dots, dashes and underscores, the first a letter or digit", s, MaxLabel)
	}
	return nil
}

// errGarbage is a first message that no node of ours sends.
var errGarbage = errors.New("the first bytes are not a node's handshake")

type hello struct {
	version uint8
	kind    Kind
	group   uint16
	target  store.UUID // zero: whoever lives there; for node RPC alone
	self    Self
}

var sums = crc32.MakeTable(crc32.Castagnoli)

func (h hello) append(b []byte) []byte {
	start := len(b)
	b = append(b, helloMagic...)
	b = append(b, h.version, byte(h.kind))
	b = binary.BigEndian.AppendUint16(b, h.group)
	b = append(b, h.self.Cluster[:]...)
	b = append(b, h.self.UUID[:]...)
	b = append(b, h.target[:]...)
	b = binary.BigEndian.AppendUint64(b, h.self.Incarnation)
	b = binary.BigEndian.AppendUint64(b, h.self.Nonce)
	b = append(b, byte(len(h.self.Label)))
	b = append(b, h.self.Label...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], sums))
}

// readHello reads at most helloFixed + MaxLabel + 4 bytes and never one beyond the hello. errVersion comes with the version
// set, before anything that another version might write differently is looked at.
func readHello(r io.Reader) (h hello, err error) {
	b := make([]byte, helloFixed, helloFixed+MaxLabel+4)
	if _, err := io.ReadFull(r, b[:5]); err != nil {
		return h, err
	}
	if string(b[:4]) != helloMagic {
		return h, errGarbage
	}
	if h.version = b[4]; h.version != Version {
		return h, nil
	}
	if _, err := io.ReadFull(r, b[5:]); err != nil {
		return h, err
	}
	n := int(b[helloFixed-1])
	if n == 0 || n > MaxLabel {
		return h, fmt.Errorf("%w: label of %d bytes", errGarbage, n)
	}
	b = b[:helloFixed+n+4]
	if _, err := io.ReadFull(r, b[helloFixed:]); err != nil {
		return h, err
	}
	if crc32.Checksum(b[:len(b)-4], sums) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return h, fmt.Errorf("%w: checksum", errGarbage)
	}
	h.kind, h.group = Kind(b[5]), binary.BigEndian.Uint16(b[6:])
	copy(h.self.Cluster[:], b[8:])
	copy(h.self.UUID[:], b[24:])
	copy(h.target[:], b[40:])
	h.self.Incarnation = binary.BigEndian.Uint64(b[56:])
	h.self.Nonce = binary.BigEndian.Uint64(b[64:])
	h.self.Label = string(b[helloFixed : helloFixed+n])
	if h.self.UUID.IsZero() || h.self.Incarnation == 0 {
		return h, fmt.Errorf("%w: no sender", errGarbage)
	}
	if err := CheckLabel(h.self.Label); err != nil {
		return h, fmt.Errorf("%w: %w", errGarbage, err)
	}
	return h, nil
}

type answer struct {
	code   Code
	reason string
	self   Self
}

func (a answer) append(b []byte) []byte {
	start := len(b)
	reason := a.reason[:min(len(a.reason), maxReason)]
	b = append(b, helloMagic...)
	b = append(b, Version, byte(a.code))
	b = binary.BigEndian.AppendUint16(b, uint16(len(reason)))
	b = append(b, a.self.Cluster[:]...)
	b = append(b, a.self.UUID[:]...)
	b = binary.BigEndian.AppendUint64(b, a.self.Incarnation)
	b = binary.BigEndian.AppendUint64(b, a.self.Nonce)
	b = append(b, byte(len(a.self.Label)))
	b = append(b, a.self.Label...)
	b = append(b, reason...)
	return binary.BigEndian.AppendUint32(b, crc32.Checksum(b[start:], sums))
}

func readAnswer(r io.Reader) (a answer, err error) {
	b := make([]byte, answerFixed, answerFixed+MaxLabel+maxReason+4)
	if _, err := io.ReadFull(r, b[:5]); err != nil {
		return a, err
	}
	if string(b[:4]) != helloMagic {
		return a, errGarbage
	}
	if b[4] != Version {
		return a, &RefusedError{Code: BadVersion, Reason: fmt.Sprintf("it speaks version %d of the node protocol, this build %d", b[4], Version)}
	}
	if _, err := io.ReadFull(r, b[5:]); err != nil {
		return a, err
	}
	n, m := int(b[answerFixed-1]), int(binary.BigEndian.Uint16(b[6:]))
	if n > MaxLabel || m > maxReason {
		return a, fmt.Errorf("%w: label of %d bytes, reason of %d", errGarbage, n, m)
	}
	b = b[:answerFixed+n+m+4]
	if _, err := io.ReadFull(r, b[answerFixed:]); err != nil {
		return a, err
	}
	if crc32.Checksum(b[:len(b)-4], sums) != binary.BigEndian.Uint32(b[len(b)-4:]) {
		return a, fmt.Errorf("%w: checksum", errGarbage)
	}
	a.code = Code(b[5])
	copy(a.self.Cluster[:], b[8:])
	copy(a.self.UUID[:], b[24:])
	a.self.Incarnation = binary.BigEndian.Uint64(b[40:])
	a.self.Nonce = binary.BigEndian.Uint64(b[48:])
	a.self.Label = string(b[answerFixed : answerFixed+n])
	a.reason = string(b[answerFixed+n : answerFixed+n+m])
	return a, nil
}
