package keepalive

import (
	"errors"
	"io"
	"net"

	"github.com/heartwheel-go/heartwheel/internal/socket"
)

// ReadFrom and WriteTo hand a transfer over to the connection inside, if that can do it in the
// kernel: io.Copy between two connections of TCP becomes splice, and from a file sendfile. Read
// and Write see none of these bytes. So the Keeper asks the socket about them while a transfer
// runs (see conn.fill). If the socket can't tell, the bytes go through Read and Write.
//
// In both directions they are life, unless only Touch is: a long download must
// not end because its client has nothing to say.

// ReadFrom writes the bytes of r, until its end. With net.Buffers it is a Write of them all: no transfer.
func (c *conn) ReadFrom(r io.Reader) (int64, error) {
	if buffers, ok := r.(*net.Buffers); ok {
		return c.writeBuffers(buffers)
	}
	into, ok := c.inner.(io.ReaderFrom)
	if !ok || !c.guard.tells() || c.ended.Load() != 0 { // Write knows what is not to come after a farewell
		return io.Copy(transferWriter{c}, r)
	}
	c.transfers.Add(1)
	defer c.transfers.Add(-1)
	bare, done := bareReader(r)
	n, err := into.ReadFrom(bare)
	err = done(n, err)
	c.passed(n)
	if err != nil && (c.ended.Load() != 0 || failedToWrite(err)) {
		err = c.fail("write", err)
	}
	return n, err
}

// writeBuffers is Write for several buffers: a writev, if the connection inside is one of package net.
func (c *conn) writeBuffers(buffers *net.Buffers) (int64, error) {
	size := int32(0)
	for _, b := range *buffers {
		size += kib(len(b))
	}
	parting, err := c.toWrite(size)
	if err != nil {
		return 0, err
	}
	if parting != nil {
		defer parting.written()
	}
	n, err := buffers.WriteTo(c.inner)
	return n, c.wrote(size, n > 0, err)
}

// failedToWrite reports whether a transfer ended because of the write, not of the read.
func failedToWrite(err error) bool {
	var op *net.OpError
	for errors.As(err, &op) {
		if op.Op == "write" {
			return true
		}
		err = op.Err
	}
	return socket.IsBrokenPipe(err)
}

// WriteTo reads until the end and gives it to w.
func (c *conn) WriteTo(w io.Writer) (n int64, err error) {
	from, ok := c.inner.(io.WriterTo)
	if !ok || !c.guard.tells() || c.ended.Load() != 0 { // Read knows what is not for the program
		return io.Copy(w, readOnly{c})
	}
	var first int64
	if c.isUnknown() {
		first, err = io.Copy(w, &oneRead{c: c})
		if first == 0 || err != nil {
			return first, err
		}
	}
	done := c.reading()
	n, err = from.WriteTo(w)
	if err == nil {
		c.flags.Or(connBroken) // the peer has ended it
	}
	return first + n, done(n, err)
}

// oneRead reads once: a transfer would go past identify.
type oneRead struct {
	c    *conn
	over bool
}

func (r *oneRead) Read(p []byte) (int, error) {
	if r.over {
		return 0, io.EOF
	}
	r.over = true
	return r.c.Read(p)
}

// passed counts n bytes moved by a transfer as life.
func (c *conn) passed(n int64) {
	if n > 0 {
		c.guard.touchForBytes()
	}
}

// reading begins a transfer out of this connection. The returned function ends it.
func (c *conn) reading() func(n int64, err error) error {
	c.transfers.Add(1)
	return func(n int64, err error) error {
		c.transfers.Add(-1)
		if n > 0 {
			binding{c.guard}.Read()
		}
		if c.ended.Load() != 0 { // also at the end of the stream, see CloseHalf
			err = c.fail("read", err)
		}
		return err
	}
}

// bareReader returns the reader inside a guarded connection, or inside an io.LimitedReader over
// one: only the bare one can be spliced. done is to be called with the result of the transfer.
func bareReader(r io.Reader) (bare io.Reader, done func(n int64, err error) error) {
	splices := func(c *conn) bool { return c.guard.tells() && !c.isUnknown() && c.ended.Load() == 0 }
	switch r := r.(type) {
	case interface{ self() *conn }:
		if splices(r.self()) {
			return r.self().inner, r.self().reading()
		}
	case *io.LimitedReader:
		if src, ok := r.R.(interface{ self() *conn }); ok && splices(src.self()) {
			limited := &io.LimitedReader{R: src.self().inner, N: r.N}
			end := src.self().reading()
			return limited, func(n int64, err error) error {
				r.N = limited.N
				return end(n, err)
			}
		}
	}
	return r, func(_ int64, err error) error { return err }
}

// readOnly and transferWriter hide ReadFrom and WriteTo from io.Copy: it would call them again.
type (
	readOnly       struct{ io.Reader }
	transferWriter struct{ c *conn }
)

func (w transferWriter) Write(p []byte) (int, error) {
	n, err := w.c.Write(p)
	w.c.passed(int64(n))
	return n, err
}
