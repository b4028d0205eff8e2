package transport

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"runtime"
	"testing"
)

// TestCompressedMessage: a message that comes compressed ends its connection before anything of it is inflated, with or without a hello before
// it: what a few bytes could become costs the server no memory. Not parallel: it measures the process. (C56)
func TestCompressedMessage(t *testing.T) {
	_, addr := doors(t, Config{})
	var b bytes.Buffer
	w, err := flate.NewWriter(&b, flate.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	zeros := make([]byte, 1<<20)
	for range 64 {
		if _, err := w.Write(zeros); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	bomb := bytes.TrimSuffix(b.Bytes(), []byte{0, 0, 0xff, 0xff}) // as RFC 7692 has it
	t.Logf("%d bytes stand for %d", len(bomb), 64*len(zeros))
	for _, bit := range []struct {
		name  string
		first byte
		code  int
	}{{"marked as compressed", 0xc2, CloseProtocol}, {"not marked", 0x82, CloseBadFrame}} {
		frame := append(binary.BigEndian.AppendUint64([]byte{bit.first, 0x80 | 127}, uint64(len(bomb))), 0, 0, 0, 0)
		frame = append(frame, bomb...)
		for name, open := range map[string]func(testing.TB, string) *peer{"before hello": dial, "after hello": connect} {
			t.Run(bit.name+", "+name, func(t *testing.T) {
				p := open(t, addr)
				var was, is runtime.MemStats
				runtime.ReadMemStats(&was)
				sent := make(chan struct{})
				go func() { // the server may stop reading half-way
					defer close(sent)
					_, _ = p.ws.NetConn().Write(frame)
				}()
				if code, text, _ := p.closed(); code != bit.code {
					t.Errorf("closed with %d %q, want %d", code, text, bit.code)
				}
				<-sent
				runtime.ReadMemStats(&is)
				if took := is.TotalAlloc - was.TotalAlloc; took > 2<<20 {
					t.Errorf("%d bytes were allocated for a message of %d", took, len(bomb))
				}
			})
		}
	}
}
