package transport

import "github.com/gorilla/websocket"

// Close codes that the server ends a WebSocket with. A fault frame of tag 0 with the words goes before each of them
// where the peer still reads; the close frame's own text repeats its beginning.
const (
	CloseStopping     = websocket.CloseGoingAway       // 1001: this node is stopping
	CloseProtocol     = websocket.CloseProtocolError   // 1002: not RFC 6455: bad mask, reserved bits, fragmented control frames …
	CloseText         = websocket.CloseUnsupportedData // 1003: a text message; frames are binary
	CloseTooBig       = websocket.CloseMessageTooBig   // 1009: a message longer than Welcome.MaxFrameBytes
	CloseBadFrame     = 4400                           // not the CBOR that the protocol asks for, a tag used twice, or a frame out of turn
	CloseLate         = 4408                           // no hello, or no end of a message, in time
	CloseReplaced     = 4409                           // the session was attached by another connection
	CloseSlowConsumer = 4410                           // the peer reads too slowly: the answers it is owed passed the bound
	CloseVersion      = 4426                           // no protocol version in common
)

// maxCloseText is what fits beside the code in a control frame of 125 bytes.
const maxCloseText = 123
