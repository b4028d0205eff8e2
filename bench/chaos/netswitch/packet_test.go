//go:build linux

package netswitch

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
)

var (
	client = addr{192, 0, 2, 1}
	server = addr{192, 0, 2, 2}
	there  = flow{client, server, 40000, 7340}
)

// tcp makes a segment with some bytes of data.
func tcp(f flow, seq, ack uint32, flags byte, data int) []byte {
	p := resetPacket(f.back(), seq, ack) // from f's sender
	p = append(p, make([]byte, data)...)
	binary.BigEndian.PutUint16(p[2:], uint16(len(p)))
	p[ipHeader+13] = flags
	return p
}

func TestParseTCP(t *testing.T) {
	for name, tc := range map[string]struct {
		packet []byte
		want   segment
	}{
		"data":      {tcp(there, 100, 7, flagACK, 50), segment{there, 150, 7, flagACK}},
		"SYN":       {tcp(there, 100, 0, flagSYN, 0), segment{there, 101, 0, flagSYN}},
		"last data": {tcp(there, 100, 7, flagACK|flagFIN, 5), segment{there, 106, 7, flagACK | flagFIN}},
		"around 0":  {tcp(there, 1<<32-10, 7, flagACK, 20), segment{there, 10, 7, flagACK}},
	} {
		if got, ok := parseTCP(tc.packet); !ok || got != tc.want {
			t.Errorf("%s: %+v %v, want %+v", name, got, ok, tc.want)
		}
	}
	whole := tcp(there, 100, 7, flagACK, 50)
	for n := range whole {
		if _, ok := parseTCP(whole[:n]); ok {
			t.Errorf("%d of %d bytes are taken for a segment", n, len(whole))
		}
	}
	for name, spoil := range map[string]func(p []byte){
		"IPv6":             func(p []byte) { p[0] = 6 << 4 },
		"short IP header":  func(p []byte) { p[0] = 4<<4 | 4 },
		"UDP":              func(p []byte) { p[9] = 17 },
		"later fragment":   func(p []byte) { p[7] = 1 },
		"short TCP header": func(p []byte) { p[ipHeader+12] = 4 << 4 },
		"long TCP header":  func(p []byte) { p[ipHeader+12] = 15 << 4; binary.BigEndian.PutUint16(p[2:], 50) },
	} {
		p := tcp(there, 100, 7, flagACK, 50)
		spoil(p)
		if s, ok := parseTCP(p); ok {
			t.Errorf("%s is taken for a segment: %+v", name, s)
		}
	}
	rng := rand.New(rand.NewPCG(seed(t), 1))
	for range 20_000 { // whatever comes, it is read or refused
		p := tcp(there, rng.Uint32(), rng.Uint32(), byte(rng.Uint32()), rng.IntN(40))
		for range rng.IntN(6) {
			p[rng.IntN(len(p))] = byte(rng.Uint32())
		}
		parseTCP(p[:rng.IntN(len(p)+1)])
	}
}

// A receiver drops what has a wrong checksum: over a header with the right one in it the sum is 0.
func TestResetPacket(t *testing.T) {
	p := resetPacket(there, 1000, 2000)
	s, ok := parseTCP(p)
	if want := (segment{there.back(), 1000, 2000, flagRST | flagACK}); !ok || s != want {
		t.Errorf("%+v %v, want %+v", s, ok, want)
	}
	if sum := checksum(p[:ipHeader], 0); sum != 0 {
		t.Errorf("the sum over the IP header is %#x", sum)
	}
	pseudo := append(append([]byte{}, p[12:20]...), 0, protoTCP, 0, tcpHeader)
	if sum := checksum(append(pseudo, p[ipHeader:]...), 0); sum != 0 {
		t.Errorf("the sum over the TCP header is %#x", sum)
	}
}

// A doomed connection passes nothing, and each end is answered with the number that it waits for; others, and the next between the same
// ports, pass.
func TestFlowsDoom(t *testing.T) {
	var f flows
	pass := func(p []byte) {
		t.Helper()
		if ok, _ := f.pass(p); !ok {
			t.Fatalf("%v does not pass", p)
		}
	}
	other := flow{client, addr{192, 0, 2, 3}, 40001, 7340}
	for _, c := range []flow{there, other} {
		pass(tcp(c, 100, 0, flagSYN, 0))
		pass(tcp(c.back(), 500, 101, flagSYN|flagACK, 0))
		pass(tcp(c, 101, 501, flagACK, 10))
		pass(tcp(c.back(), 501, 111, flagACK, 20))
		pass(tcp(c, 101, 501, flagACK, 10)) // again, and behind
	}
	got := map[flow]segment{}
	for _, p := range f.doom(server) {
		s, _ := parseTCP(p)
		got[s.flow] = s
	}
	want := map[flow]segment{
		there.back(): {there.back(), 501, 111, flagRST | flagACK},
		there:        {there, 111, 521, flagRST | flagACK},
	}
	if len(got) != 2 || got[there] != want[there] || got[there.back()] != want[there.back()] {
		t.Errorf("resets %+v, want %+v", got, want)
	}
	pass(tcp(other, 111, 521, flagACK, 1))
	ended := flow{client, server, 40002, 7340}
	for _, f := range []flow{ended, ended.back()} {
		pass(tcp(f, 1, 1, flagACK|flagFIN, 0))
	}
	ok, answer := f.pass(tcp(there, 111, 521, flagACK, 5))
	if s, _ := parseTCP(answer); ok || s != (segment{there.back(), 521, 116, flagRST | flagACK}) {
		t.Errorf("a doomed end is answered %+v, passes: %v", s, ok)
	}
	if len(f.doom(server)) != 0 {
		t.Error("what is doomed, or has ended, is doomed")
	}
	if ok, answer := f.pass(tcp(there.back(), 521, 116, flagRST, 0)); ok || answer != nil {
		t.Errorf("a reset of a doomed end passes (%v) or is answered (%v)", ok, answer)
	}
	pass(tcp(there, 9000, 0, flagSYN, 0))
	pass(tcp(there.back(), 700, 9001, flagSYN|flagACK, 0))
	pass(tcp(there, 9001, 701, flagACK, 3))
}

func TestFlowsAreBounded(t *testing.T) {
	var f flows
	for i := range 3 * flowsMost {
		f.pass(tcp(flow{client, server, uint16(i), uint16(i >> 16)}, 1, 1, flagACK, 1))
		if len(f.half) > flowsMost {
			t.Fatalf("%d connections are remembered, want at most %d", len(f.half), flowsMost)
		}
	}
	last := 3*flowsMost - 1
	if f.half[flow{client, server, uint16(last), uint16(last >> 16)}] == nil {
		t.Error("the newest is forgotten")
	}
}
