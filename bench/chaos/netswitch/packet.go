//go:build linux

package netswitch

import "encoding/binary"

// addr is an IPv4 address.
type addr [4]byte

// Layout of IPv4 (RFC 791) and TCP (RFC 9293), as far as it matters here.
const (
	ipHeader  = 20
	tcpHeader = 20
	protoTCP  = 6
	defaultHL = 64

	flagFIN, flagSYN, flagRST, flagACK = 1, 2, 4, 16
)

// ends are the sender and the receiver of an IPv4 packet; ok is false where it is none.
func ends(packet []byte) (from, to addr, ok bool) {
	if len(packet) < ipHeader || packet[0]>>4 != 4 {
		return from, to, false
	}
	return addr(packet[12:16]), addr(packet[16:20]), true
}

// flow is one direction of a TCP connection.
type flow struct {
	from, to         addr
	fromPort, toPort uint16
}

func (f flow) back() flow { return flow{f.to, f.from, f.toPort, f.fromPort} }

// segment is what a TCP segment says.
type segment struct {
	flow
	next  uint32 // the sequence number that follows it
	ack   uint32 // the one its sender waits for, where flags has flagACK
	flags byte
}

// parseTCP reads an IPv4 packet; ok is false where it is not the beginning of a whole TCP segment.
func parseTCP(packet []byte) (s segment, ok bool) {
	from, to, ok := ends(packet)
	if !ok || packet[9] != protoTCP || binary.BigEndian.Uint16(packet[6:])&0x1fff != 0 {
		return s, false
	}
	head, total := int(packet[0]&15)*4, int(binary.BigEndian.Uint16(packet[2:]))
	if head < ipHeader || total > len(packet) || total < head+tcpHeader {
		return s, false
	}
	t := packet[head:total]
	data := int(t[12]>>4) * 4
	if data < tcpHeader || data > len(t) {
		return s, false
	}
	s = segment{
		flow:  flow{from, to, binary.BigEndian.Uint16(t), binary.BigEndian.Uint16(t[2:])},
		next:  binary.BigEndian.Uint32(t[4:]) + uint32(len(t)-data),
		ack:   binary.BigEndian.Uint32(t[8:]),
		flags: t[13],
	}
	if s.flags&flagSYN != 0 {
		s.next++
	}
	if s.flags&flagFIN != 0 {
		s.next++
	}
	return s, true
}

// resetPacket is a reset for the sender of f, as if the other end had sent it: seq is the sequence number that the sender waits for, ack the
// one that follows what it has sent.
func resetPacket(f flow, seq, ack uint32) []byte {
	p := make([]byte, ipHeader+tcpHeader)
	p[0] = 4<<4 | ipHeader/4
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	p[6] = 1 << 6 // not to be cut into fragments
	p[8], p[9] = defaultHL, protoTCP
	copy(p[12:], f.to[:])
	copy(p[16:], f.from[:])
	binary.BigEndian.PutUint16(p[10:], checksum(p[:ipHeader], 0))
	t := p[ipHeader:]
	binary.BigEndian.PutUint16(t, f.toPort)
	binary.BigEndian.PutUint16(t[2:], f.fromPort)
	binary.BigEndian.PutUint32(t[4:], seq)
	binary.BigEndian.PutUint32(t[8:], ack)
	t[12], t[13] = tcpHeader/4<<4, flagRST|flagACK
	// Over the header and what of IP goes with it: both addresses, the protocol, the length.
	var more uint32
	for i := 12; i < 20; i += 2 {
		more += uint32(binary.BigEndian.Uint16(p[i:]))
	}
	binary.BigEndian.PutUint16(t[16:], checksum(t, more+protoTCP+tcpHeader))
	return p
}

// checksum is the Internet's (RFC 1071) over an even number of bytes; more is added.
func checksum(b []byte, more uint32) uint16 {
	sum := more
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum>>16 != 0 {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
