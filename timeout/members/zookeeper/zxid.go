package zookeeper

import (
	"encoding/binary"
	"net"
	"slices"
)

// opSetWatches is the opcode of the request that takes the watches of the last connection to the next one.
const opSetWatches = 101

// numbered keeps the number of the last change seen (zxid) of a session, and hides all numbers from go-zookeeper.
// go-zookeeper has a data race: on a new connection it may read the number for opSetWatches after an answer has raised
// it. The server would not tell of an earlier change then. go-zookeeper writes its own number only if an answer has one.
type numbered struct {
	net.Conn
	last   *int64 // number of the last answer, of all connections of the session
	before int64  // the same when this connection began
	asked  bool   // go-zookeeper has asked for the session

	// The packet under way.
	answered bool // it is not the answer to the first request, which has no number
	at, size int  // bytes read, with four for the size; size of the rest
	xid      int32
	zxid     int64
}

// Write writes one request, with the true number.
func (c *numbered) Write(request []byte) (int, error) {
	switch be := binary.BigEndian; {
	case !c.asked: // length, version of the protocol, number, timeout, session
		c.asked = true
		if be.Uint64(request[20:]) == 0 {
			*c.last = 0 // a new session has seen nothing
		}
		c.before = *c.last
		request = slices.Clone(request)
		be.PutUint64(request[8:], uint64(c.before))
	case be.Uint32(request[8:]) == opSetWatches: // length, xid, opcode, number
		request = slices.Clone(request)
		be.PutUint64(request[12:], uint64(c.before))
	}
	return c.Conn.Write(request)
}

// Read reads answers, and sets their numbers to zero.
func (c *numbered) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	for i := range b[:n] {
		b[i] = c.take(b[i])
	}
	return n, err
}

// take takes the next byte of a packet, and returns it as go-zookeeper gets it.
func (c *numbered) take(b byte) byte {
	switch c.at++; { // length, xid, number
	case c.at <= 4:
		c.size = c.size<<8 | int(b)
	case c.at <= 8:
		c.xid = c.xid<<8 | int32(b)
	case c.at <= 16 && c.answered:
		c.zxid = c.zxid<<8 | int64(b)
		b = 0
	}
	if c.at >= 4 && c.at-4 >= c.size {
		if c.xid >= 0 && c.zxid > 0 { // events and answers to pings have other xids
			*c.last = c.zxid
		}
		c.answered, c.at, c.size, c.xid, c.zxid = true, 0, 0, 0, 0
	}
	return b
}
