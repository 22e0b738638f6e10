//go:build !windows

package netpollkeepalive

import (
	"github.com/cloudwego/netpoll"
)

// A conn is its own Reader and Writer, as netpoll's connections are. The buffers are netpoll's.

func (c *conn) Reader() netpoll.Reader { return c }
func (c *conn) Writer() netpoll.Writer { return c }

// waits reports whether a read of n bytes has to wait for them.
func (c *conn) waits(n int) bool { return c.Len() < n }

// read is the end of each read. Bytes without a wait were there when OnRequest began, or the
// socket knows of them.
func (c *conn) read(waited bool, err error) error {
	if reason := c.reason(); reason != nil {
		return reason
	}
	if err == nil && (waited || !c.guard.Binding().Tells()) {
		c.heard()
	}
	return err
}

func (c *conn) Read(p []byte) (int, error) {
	waited := c.waits(1)
	n, err := c.Connection.Read(p)
	return n, c.read(waited, err)
}

func (c *conn) Next(n int) ([]byte, error) {
	waited := c.waits(n)
	p, err := c.Connection.Reader().Next(n)
	return p, c.read(waited, err)
}

func (c *conn) Peek(n int) ([]byte, error) {
	waited := c.waits(n)
	p, err := c.Connection.Reader().Peek(n)
	return p, c.read(waited, err)
}

func (c *conn) Skip(n int) error {
	waited := c.waits(n)
	return c.read(waited, c.Connection.Reader().Skip(n))
}

func (c *conn) Until(delim byte) ([]byte, error) {
	line, err := c.Connection.Reader().Until(delim)
	return line, c.read(true, err) // or nobody knows
}

func (c *conn) ReadString(n int) (string, error) {
	waited := c.waits(n)
	s, err := c.Connection.Reader().ReadString(n)
	return s, c.read(waited, err)
}

func (c *conn) ReadBinary(n int) ([]byte, error) {
	waited := c.waits(n)
	p, err := c.Connection.Reader().ReadBinary(n)
	return p, c.read(waited, err)
}

func (c *conn) ReadByte() (byte, error) {
	waited := c.waits(1)
	b, err := c.Connection.Reader().ReadByte()
	return b, c.read(waited, err)
}

func (c *conn) Slice(n int) (netpoll.Reader, error) {
	waited := c.waits(n)
	r, err := c.Connection.Reader().Slice(n)
	return r, c.read(waited, err)
}

func (c *conn) Release() error { return c.Connection.Reader().Release() }
func (c *conn) Len() int       { return c.Connection.Reader().Len() }

func (c *conn) Write(p []byte) (n int, err error) {
	err = c.write(func() error {
		n, err = c.Connection.Write(p)
		return err
	})
	return n, err
}

func (c *conn) Flush() error { return c.write(c.Connection.Writer().Flush) }

// write has one goroutine at a time submit bytes.
func (c *conn) write(submit func() error) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	if reason := c.reason(); reason != nil {
		return reason
	}
	err := submit()
	switch {
	case err != nil:
		c.broken.Store(true)
		if reason := c.reason(); reason != nil {
			return reason
		}
	default:
		c.guard.Binding().Wrote()
	}
	return err
}

func (c *conn) Malloc(n int) ([]byte, error)      { return c.Connection.Writer().Malloc(n) }
func (c *conn) MallocAck(n int) error             { return c.Connection.Writer().MallocAck(n) }
func (c *conn) MallocLen() int                    { return c.Connection.Writer().MallocLen() }
func (c *conn) Append(w netpoll.Writer) error     { return c.Connection.Writer().Append(w) }
func (c *conn) WriteString(s string) (int, error) { return c.Connection.Writer().WriteString(s) }
func (c *conn) WriteBinary(p []byte) (int, error) { return c.Connection.Writer().WriteBinary(p) }
func (c *conn) WriteByte(b byte) error            { return c.Connection.Writer().WriteByte(b) }
func (c *conn) WriteDirect(p []byte, left int) error {
	return c.Connection.Writer().WriteDirect(p, left)
}
