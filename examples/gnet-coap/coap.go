package main

import "encoding/binary"

// The part of CoAP (RFC 7252) needed here: no options are read, and none are written.
const (
	confirmable, nonConfirmable, acknowledgement, reset = 0, 1, 2, 3 // types

	empty, get, content, notAllowed = 0x00, 0x01, 0x45, 0x85 // codes: 0.00, 0.01, 2.05, 4.05

	version   = 1 << 6
	headerLen = 4
	maxToken  = 8
	payload   = 0xff // what comes after it
)

// message is a CoAP message, or the head of one.
type message struct {
	kind, code byte
	id         uint16
	token      []byte
}

// parse reports false for everything but CoAP.
func parse(b []byte) (m message, ok bool) {
	if len(b) < headerLen || b[0]>>6 != 1 {
		return m, false
	}
	n := int(b[0] & 0xf)
	if n > maxToken || len(b) < headerLen+n {
		return m, false
	}
	return message{
		kind:  b[0] >> 4 & 3,
		code:  b[1],
		id:    binary.BigEndian.Uint16(b[2:]),
		token: b[headerLen : headerLen+n],
	}, true
}

// append appends the message and its text, if there is one.
func (m message) append(b []byte, text string) []byte {
	b = append(b, version|m.kind<<4|byte(len(m.token)), m.code)
	b = binary.BigEndian.AppendUint16(b, m.id)
	b = append(b, m.token...)
	if text != "" {
		b = append(append(b, payload), text...)
	}
	return b
}

// answer returns the answer to a request, and true if there is one.
func (m message) answer() (answer message, ok bool) {
	answer = message{id: m.id, token: m.token, code: notAllowed}
	if m.code == get {
		answer.code = content
	}
	switch {
	case m.kind == confirmable && m.code == empty: // a ping
		return message{kind: reset, id: m.id}, true
	case m.kind == confirmable:
		answer.kind = acknowledgement
	case m.kind == nonConfirmable:
		answer.kind = nonConfirmable
	default:
		return message{}, false
	}
	return answer, m.code != empty
}
