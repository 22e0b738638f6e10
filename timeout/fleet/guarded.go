package fleet

import (
	"context"
	"fmt"
	"io"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// RegisterGuarded is Register for a connection that a Keeper guards, of package net or of gnet:
// the session ends when the connection is closed, whoever closes it and why. What conn is, the
// Keeper's Context says. It returns keepalive.ErrNotGuarded for one that is not guarded, or was
// closed already. Whoever wants its session to wait for the client's return calls Session.Detach
// before that, such as in the Keeper's OnIdle.
func (n *Node) RegisterGuarded(ctx context.Context, k *keepalive.Keeper, conn any, id string, meta []byte) (*Session, error) {
	closer, ok := conn.(io.Closer)
	if !ok {
		return nil, argument(fmt.Sprintf("conn is a %T, must have a method Close", conn))
	}
	life := k.Context(conn)
	if life.Err() != nil {
		return nil, context.Cause(life)
	}
	s, err := n.Register(ctx, closer, id, meta)
	if err != nil {
		return nil, err
	}
	context.AfterFunc(life, func() { _ = s.Close() })
	return s, nil
}
