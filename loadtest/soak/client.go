package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"time"
)

// client is one of the clients, with one connection after the other. One goroutine uses it.
type client struct {
	soak *soak
	kind *kind
	rnd  *rand.Rand
	from *net.TCPAddr

	conn    net.Conn
	in      *bufio.Reader
	serving *generation // the server of the connection
	ending              // what is known of its end so far
	partial []byte      // of the server's line
	number  int         // of our next line
	echoes  int         // lines that were echoed
}

// live goes on until the context ends.
func (c *client) live(ctx context.Context) {
	for ; ctx.Err() == nil; sleep(ctx, c.between(0.05, 0.3)) {
		if c.kind.vanish && !c.soak.here.wait(ctx) {
			return
		}
		if !c.dial() {
			continue
		}
		stop := context.AfterFunc(ctx, func() { _ = c.conn.SetReadDeadline(time.Unix(1, 0)) })
		c.talk(ctx)
		stop()
		_ = c.conn.Close()
	}
}

// dial opens a connection, and reports whether it did.
func (c *client) dial() bool {
	c.soak.dialing.RLock()
	defer c.soak.dialing.RUnlock()
	g := c.soak.serving
	c.serving, c.ending, c.partial, c.number, c.echoes = g, ending{kind: c.kind, dialed: time.Now()}, c.partial[:0], 0, 0
	c.life = c.dialed
	dialer := net.Dialer{LocalAddr: c.from, Timeout: c.soak.patience(), KeepAlive: -1}
	served := g.serves()
	conn, err := dialer.Dial("tcp", g.addr) // to the end: the server may have counted it
	if err != nil {
		c.soak.tally.undialed(c.kind, served && g.serves(), err)
		return false
	}
	g.dialed.Add(1)
	c.conn = conn
	if c.in == nil {
		c.in = bufio.NewReaderSize(nil, 256)
	}
	c.in.Reset(conn)
	if c.kind.unread {
		_ = conn.(*net.TCPConn).SetReadBuffer(4 << 10)
	}
	return true
}

// talk is the life of a connection.
func (c *client) talk(ctx context.Context) {
	pause := c.kind.pause(c.soak.cfg.timeout)
	next := time.Time{}
	switch {
	case c.kind.first:
		if !c.say() {
			c.end(ctx, io.ErrUnexpectedEOF)
			return
		}
		c.said = time.Now()
		if pause > 0 {
			next = time.Now().Add(time.Duration(c.rnd.Int64N(int64(pause))))
		}
	case pause > 0:
		next = time.Now().Add(pause)
	}
	for {
		line, err := c.read(c.deadline(next))
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			switch {
			case ctx.Err() != nil:
				return
			case c.kind.vanish && c.soak.here.left():
				c.vanished(ctx)
				return
			case next.IsZero() || c.soak.isOver(c.ending):
				c.soak.tally.lost(c.ending, c.serving)
				return
			case c.kind.lines > 0 && c.number >= c.kind.lines:
				c.leave()
				return
			case !c.say():
				c.end(ctx, io.ErrUnexpectedEOF)
				return
			}
			next = next.Add(pause)
			if now := time.Now(); next.Before(now) {
				next = now
			}
		case err != nil:
			c.end(ctx, err)
			return
		default:
			c.hear(line)
		}
	}
}

// deadline is until when to read: until the next line, or for as long as a dead client waits for its end.
func (c *client) deadline(next time.Time) time.Time {
	if !next.IsZero() {
		return next
	}
	if c.kind.lives {
		return time.Now().Add(time.Hour)
	}
	return c.life.Add(c.soak.patience())
}

// say sends a line, or a byte of one. It reports whether the connection took it.
func (c *client) say() bool {
	sent := c.send(c.line())
	c.number++
	return sent
}

// send sends something. A whole line is a sign of life.
func (c *client) send(line []byte) bool {
	before := time.Now()
	_ = c.conn.SetWriteDeadline(before.Add(c.soak.patience()))
	_, err := c.conn.Write(line)
	if err == nil && line[len(line)-1] == '\n' {
		c.life = before
	}
	return err == nil
}

func (c *client) line() []byte {
	switch {
	case c.kind.byByte && c.number > 0:
		return []byte("x")
	case c.kind.size > 0 && c.number > 0:
		return append(bytes.Repeat([]byte("x"), c.kind.size), '\n')
	default:
		return fmt.Appendf(nil, "this is a line, the %d.\n", c.number)
	}
}

// read returns a line of the server's, without its end.
func (c *client) read(until time.Time) (string, error) {
	if c.kind.unread {
		time.Sleep(time.Until(until))
		return "", os.ErrDeadlineExceeded
	}
	if err := c.conn.SetReadDeadline(until); err != nil {
		return "", err
	}
	if c.kind.slowly {
		time.Sleep(time.Millisecond)
	}
	part, err := c.in.ReadSlice('\n')
	c.partial = append(c.partial, part...)
	if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
		return "", err
	}
	if !bytes.HasSuffix(c.partial, []byte("\n")) {
		return c.read(until)
	}
	line := string(c.partial[:len(c.partial)-1])
	c.partial = c.partial[:0]
	return line, nil
}

// hear deals with a line of the server's.
func (c *client) hear(line string) {
	switch {
	case line == "PING":
		if c.kind.pongs {
			c.send([]byte("BEAT for the sake of peace\n"))
		}
	case strings.HasPrefix(line, "GOAWAY "):
	case strings.HasPrefix(line, "BYE"), strings.HasPrefix(line, "ERR"):
		c.text = line
	case c.kind.first && c.kind.size == 0:
		if want := fmt.Sprintf("this is a line, the %d.", c.echoes); line != want {
			c.soak.tally.fault("%s: was answered %q, and not %q", c.kind.name, line, want)
		}
		c.echoes++
	}
}

// end judges an end by the server. What it said before is read to its end.
func (c *client) end(ctx context.Context, err error) {
	for !errors.Is(err, io.EOF) && !c.kind.unread && ctx.Err() == nil {
		var line string
		if line, err = c.read(time.Now().Add(time.Second)); err != nil {
			break
		}
		c.hear(line)
	}
	if ctx.Err() != nil {
		return
	}
	c.at = time.Now()
	c.late = c.soak.lateness.since(c.at.Add(-c.soak.rules.longest), c.at)
	c.leaves = c.serving.leaving.Load()
	c.soak.tally.ended(c.ending, c.soak.rules)
}

// leave ends the connection in one of the ways in which clients do.
func (c *client) leave() {
	switch c.rnd.IntN(3) {
	case 0:
		_ = c.conn.(*net.TCPConn).SetLinger(0) // a reset
	case 1:
		_, _ = io.WriteString(c.conn, "QUIT\n")
	}
	c.soak.tally.left(c.kind)
}

// vanished waits until the machine is back. Its connection is not closed before: nobody would hear of it.
func (c *client) vanished(ctx context.Context) {
	c.soak.here.wait(ctx)
	c.soak.tally.left(c.kind)
}

func (c *client) between(from, to float64) time.Duration {
	return time.Duration((from + (to-from)*c.rnd.Float64()) * float64(c.soak.cfg.timeout))
}
