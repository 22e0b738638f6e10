package connpool

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/heartwheel-go/heartwheel/internal/socket"
)

// ErrUnread means unread bytes on a connection without a pending request: the rest of an
// answer, or a farewell.
var ErrUnread = errors.New("connpool: bytes wait to be read")

// Alive asks the socket of an idle connection whether it is still of use. It is for
// [Config.Check], and for CheckPut. It sends nothing and does not wait, and costs about a
// microsecond. It returns an error wrapping [io.EOF] if the peer has closed the connection,
// [ErrUnread] if bytes wait, the connection's own error if it is broken or was closed here,
// and otherwise nil.
//
// Alive finds a connection inside another, such as a [crypto/tls.Conn], by the method
// NetConn or Raw. Bytes waiting there are no error, since TLS has messages of its own. Nor is a
// farewell of TLS, until the connection itself is closed. On systems other than Linux,
// Alive does not see such a close behind the farewell. A connection without a socket is
// alive as far as one can tell, and on systems other than Unix each is.
//
// After the loss of its machine or network, a peer says nothing. Against this there are
// requests with deadlines, and a Check to ask the peer.
func Alive(_ context.Context, c net.Conn) error {
	raw, layers, err := socket.Of(c, nil)
	switch {
	case errors.Is(err, socket.ErrNone):
		return nil
	case err != nil:
		return err
	}
	var s state
	if ctrl := raw.Control(func(fd uintptr) { s, err = look(fd) }); ctrl != nil {
		return fmt.Errorf("connpool: connection is closed: %w", ctrl)
	}
	switch {
	case err != nil:
		return fmt.Errorf("connpool: connection is broken: %w", err)
	case s == closedByPeer:
		return fmt.Errorf("connpool: closed by the peer: %w", io.EOF)
	case s == unread && layers == 0:
		return ErrUnread
	default:
		return nil
	}
}

// state is the answer of a socket without an error.
type state int

const (
	quiet state = iota
	unread
	closedByPeer
)
