package fleet

import (
	"encoding/binary"
	"fmt"
)

// token identifies a registration by its epoch and the incarnation of its node. If a failover
// has lost a registration, the incarnation tells it from another node's with the same epoch.
type token [epochBytes + incarnationBytes]byte

const (
	epochBytes       = 7
	incarnationBytes = 5
)

// incarnation identifies one run of a node, from New to Close.
type incarnation [incarnationBytes]byte

func newToken(epoch int64, by incarnation) (t token) {
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], uint64(epoch))
	copy(t[:], number[1:])
	copy(t[epochBytes:], by[:])
	return t
}

func (t token) epoch() int64 { return number(string(t[:epochBytes])) }

func (t token) by() incarnation { return incarnation(t[epochBytes:]) }

// value is what a slot keeps of a session: its owner and its state.
type value struct {
	token token
	state string
}

const (
	stateOnline   = ""
	stateKicked   = "k"
	stateDetached = "d"
	stateEnded    = "x"
)

func readValue(text string) (value, error) {
	if len(text) < len(token{}) {
		return value{}, fmt.Errorf("fleet: an owner of %d bytes, must have at least %d", len(text), len(token{}))
	}
	return value{token([]byte(text[:len(token{})])), text[len(token{}):]}, nil
}

// record is what a slot keeps of a session besides: times are the server's, in ms.
type record struct {
	since int64
	lease int64
	node  string
	meta  string
}

const recordHead = 6 + 4 + 1

func readRecord(text string) (record, error) {
	if len(text) < recordHead || len(text) < recordHead+int(text[recordHead-1]) {
		return record{}, fmt.Errorf("fleet: a record of %d bytes, must have at least %d and those of the node's name", len(text), recordHead)
	}
	end := recordHead + int(text[recordHead-1])
	return record{number(text[:6]), number(text[6:10]), text[recordHead:end], text[end:]}, nil
}

// event is an end of a session, not told yet.
type event struct {
	id       string
	token    token
	attempts int
	reason   byte
	seen     int64
	record   record
}

const eventHead = epochBytes + incarnationBytes + 2 + 1 + 6

func readEvent(id, text string) (event, error) {
	if len(text) < eventHead {
		return event{}, fmt.Errorf("fleet: the end of session %.100q has %d bytes, must have at least %d", id, len(text), eventHead)
	}
	rec, err := readRecord(text[eventHead:])
	return event{
		id: id, token: token([]byte(text[:len(token{})])), attempts: int(number(text[12:14])),
		reason: text[14], seen: number(text[15:eventHead]), record: rec,
	}, err
}

// number reads bytes, the highest first.
func number(text string) (n int64) {
	for _, b := range []byte(text) {
		n = n<<8 | int64(b)
	}
	return n
}
