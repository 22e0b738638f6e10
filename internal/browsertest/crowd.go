package browsertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

// Member is a connection without a socket: there can be very many of them.
type Member struct {
	guard keepalive.Guard
	from  *net.TCPAddr
	name  string
}

// Crowd has a Keeper guard so many connections: from 10.0.0.0 on, with a label each.
func Crowd(k *keepalive.Keeper, n int) ([]*Member, error) {
	all := make([]*Member, n)
	for i := range all {
		all[i] = &Member{
			from: &net.TCPAddr{IP: net.IPv4(10, byte(i>>16), byte(i>>8), byte(i)), Port: 20000 + i%40000},
			name: fmt.Sprintf("client-%05d", i),
		}
		m := all[i]
		if err := k.Bind(&m.guard, m, m, m.from); err != nil {
			return nil, err
		}
		if i%500 == 7 {
			m.guard.Hold()
		}
		if i%50 == 3 {
			if _, err := m.guard.SetTimeout(10*time.Minute + rand.N(time.Hour)); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// Label is for debughttp.Config.
func Label(conn any) string { return conn.(*Member).name }

// SafeContext leads keepalive.Of to the guard.
func (m *Member) SafeContext() any { return &m.guard }

// Leave ends the connection, unless it has ended: as the peer, this program, or the Keeper would.
func (m *Member) Leave(reason keepalive.Reason) {
	if reason != keepalive.ReasonPeer && reason != keepalive.ReasonLocal {
		m.guard.Close(reason)
		return
	}
	if b := m.guard.Binding(); b.Release() {
		b.Closed(reason == keepalive.ReasonPeer)
	}
}

// Due decides about the connection.
func (m *Member) Due(b adapter.Binding) { b.Decide() }

// Do runs f.
func (m *Member) Do(_ context.Context, _ adapter.Binding, f func()) error { f(); return nil }

// Control has no socket.
func (m *Member) Control(adapter.Binding, func(fd uintptr)) error { return net.ErrClosed }

// Peer returns the address.
func (m *Member) Peer(adapter.Binding) net.Addr { return m.from }

// End ends the connection.
func (m *Member) End(b adapter.Binding, _ adapter.Ending) { b.Closed(false) }
