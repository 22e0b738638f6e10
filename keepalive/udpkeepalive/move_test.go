package udpkeepalive

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func from(peer netip.AddrPort) Path { return Path{Peer: peer} }

// A session that has moved is the same one, and only its new path is its own.
func TestASessionMoves(t *testing.T) {
	t.Parallel()
	cfg := keepalive.Config{Timeout: 10 * second, Closing: keepalive.Closing{
		Farewell: func(any, keepalive.Reason) []byte { return []byte("bye") },
	}}
	bubble(t, cfg, func(t *testing.T, f *fake, s *Sessions[int], ended *ends) {
		session := heard(t, s, alice)
		session.Value = 7
		before, _ := keepalive.Of(session).Info()
		pass(9 * second)
		require.NoError(t, s.Move(session, from(bob)))
		require.NoError(t, s.Move(session, from(bob)), "it is there")
		require.Nil(t, s.Find(from(alice)))
		require.Same(t, session, s.Find(from(bob)))
		require.Equal(t, bob, session.Peer())
		require.Equal(t, from(bob), session.Path())
		require.Equal(t, bob.String(), keepalive.Of(session).RemoteAddr(t.Context()).String())
		info, _ := keepalive.Of(session).Info()
		require.Equal(t, before.ID, info.ID)
		require.Equal(t, 9*second, info.Idle.Round(second), "a move is no sign of life")
		require.Same(t, session, heard(t, s, bob))

		stranger := heard(t, s, alice)
		require.NotSame(t, session, stranger)
		require.Error(t, s.Move(session, from(alice)), "the path has a session")
		require.Same(t, stranger, s.Find(from(alice)))
		_, err := session.Write([]byte("hello"))
		require.NoError(t, err)
		require.NoError(t, stranger.Close())
		pass(11 * second)
		require.False(t, s.Decide(0))
		requireEnds(t, ended, end{stranger, keepalive.ReasonLocal}, end{session, keepalive.ReasonIdle})
		require.Equal(t, []string{bob.String() + " hello", bob.String() + " bye"}, f.sent)
		require.ErrorIs(t, s.Move(session, from(bob)), net.ErrClosed)
		require.Nil(t, s.Find(from(bob)))
		require.Equal(t, 7, session.Value)
	})
}

// A session counts where it is, and not twice for one address.
func TestAMoveCountsForTheNewAddress(t *testing.T) {
	t.Parallel()
	cfg := keepalive.Config{Timeout: time.Minute, Room: keepalive.Room{MaxPerKey: 1}}
	bubble(t, cfg, func(t *testing.T, _ *fake, s *Sessions[int], _ *ends) {
		a := heard(t, s, alice)
		sibling := netip.AddrPortFrom(alice.Addr(), 2000)
		require.NoError(t, s.Move(a, from(sibling)), "of the same address")
		_, err := s.Heard(from(alice))
		require.ErrorIs(t, err, keepalive.ReasonFull)

		b := heard(t, s, bob)
		require.ErrorIs(t, s.Move(a, from(netip.AddrPortFrom(bob.Addr(), 2000))), keepalive.ReasonFull)
		require.Equal(t, sibling, a.Peer())
		require.Same(t, a, s.Find(from(sibling)))
		require.Equal(t, uint64(2), s.keeper.Stats().RefusedPerKey)

		require.NoError(t, b.Close())
		require.NoError(t, s.Move(a, from(bob)))
		c := heard(t, s, alice)
		require.NoError(t, a.Close())
		require.NoError(t, s.Move(c, from(bob)))
		require.NoError(t, c.Close())
		heard(t, s, alice)
		heard(t, s, bob)
	})
}

// The read loop of the socket that a session has moved to decides about it.
func TestASessionMovesToAnotherSocket(t *testing.T) {
	t.Parallel()
	bubble(t, keepalive.Config{Timeout: 10 * second}, func(t *testing.T, _ *fake, s *Sessions[int], ended *ends) {
		f2 := newFake()
		s2 := New[int](f2, s.keeper)
		session := heard(t, s, alice)
		pass(9 * second)
		require.NoError(t, s2.Move(session, from(alice)))
		require.Nil(t, s.Find(from(alice)))
		require.Same(t, session, heard(t, s2, alice))
		_, err := session.Write([]byte("hello"))
		require.NoError(t, err)
		require.Equal(t, []string{alice.String() + " hello"}, f2.sent)
		pass(11 * second)
		require.False(t, s.Decide(0))
		require.Empty(t, ended.list())
		require.NotEmpty(t, f2.woken)
		require.False(t, s2.Decide(0))
		requireEnds(t, ended, end{session, keepalive.ReasonIdle})

		last := heard(t, s, bob)
		require.NoError(t, s2.Close())
		require.ErrorIs(t, s2.Move(last, from(bob)), net.ErrClosed)
		require.Nil(t, s2.Find(from(bob)))
		requireEnds(t, ended, end{session, keepalive.ReasonIdle}, end{last, keepalive.ReasonLocal})
		require.Zero(t, s.keeper.Len())
	})
}

func TestMovesThatCanNotBe(t *testing.T) {
	t.Parallel()
	bubble(t, keepalive.Config{Timeout: time.Minute}, func(t *testing.T, _ *fake, s *Sessions[int], _ *ends) {
		session := heard(t, s, alice)
		require.ErrorIs(t, s.Move(nil, from(bob)), keepalive.ErrArgument)
		require.ErrorIs(t, s.Move(new(Session[int]), from(bob)), keepalive.ErrArgument)
		require.ErrorIs(t, s.Move(session, Path{}), keepalive.ErrArgument)
		require.NoError(t, s.keeper.Close())
		require.NoError(t, s.Move(session, from(bob)), "it lives on, unguarded")
		require.Same(t, session, heard(t, s, bob))
	})
}

// A device that was switched off and on sends from the same address.
func TestASessionBeginsWithTheDatagramJustRead(t *testing.T) {
	t.Parallel()
	cfg := keepalive.Config{Timeout: 10 * second, Room: keepalive.Room{MaxConns: 1, MaxPerKey: 1}, Closing: keepalive.Closing{
		Farewell: func(any, keepalive.Reason) []byte { return []byte("bye") },
	}}
	bubble(t, cfg, func(t *testing.T, f *fake, s *Sessions[int], ended *ends) {
		before := heard(t, s, alice)
		before.Value = 7
		pass(9 * second)
		session, err := before.Restart()
		require.NoError(t, err)
		require.NotSame(t, before, session)
		require.Zero(t, session.Value)
		require.Same(t, session, s.Find(from(alice)))
		requireEnds(t, ended, end{before, keepalive.ReasonPeer})
		again, err := before.Restart()
		require.NoError(t, err)
		require.Same(t, session, again, "it has begun anew already")
		_, err = before.Write(nil)
		require.ErrorIs(t, err, net.ErrClosed)
		pass(9 * second)
		require.False(t, s.Decide(0))
		requireEnds(t, ended, end{before, keepalive.ReasonPeer})
		pass(2 * second)
		require.False(t, s.Decide(0))
		requireEnds(t, ended, end{before, keepalive.ReasonPeer}, end{session, keepalive.ReasonIdle})
		require.Equal(t, []string{alice.String() + " bye"}, f.sent)

		again, err = session.Restart()
		require.NoError(t, err)
		require.Same(t, again, s.Find(from(alice)))
		require.NoError(t, s.Close())
		_, err = again.Restart()
		require.ErrorIs(t, err, net.ErrClosed)
	})
}

// Sessions begin, move, restart and end on many goroutines, and each is told of once.
func TestManyMoveAtOnce(t *testing.T) {
	t.Parallel()
	var told ends
	k, err := keepalive.New(keepalive.Config{Timeout: time.Hour, Room: keepalive.Room{MaxPerKey: 3}, OnClose: told.add})
	require.NoError(t, err)
	defer k.Close()
	all := []*Sessions[int]{New[int](newFake(), k), New[int](newFake(), k)}
	var crowd sync.WaitGroup
	for range 4 {
		crowd.Go(func() {
			for range 500 {
				s := all[rand.N(len(all))]
				path := from(netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(rand.N(3))}), uint16(1+rand.N(4))))
				session, err := s.Heard(path)
				if err != nil {
					continue
				}
				switch rand.N(6) {
				case 0:
					_ = session.Close()
				case 1:
					_, _ = session.Restart()
				default:
					to := from(netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(rand.N(3))}), uint16(1+rand.N(4))))
					_ = all[rand.N(len(all))].Move(session, to)
				}
			}
		})
	}
	crowd.Wait()
	found := 0
	for _, s := range all {
		for key, session := range s.of.All() {
			require.Equal(t, place[int]{s, key}, *session.at.Load())
			require.False(t, session.ended.Load())
			found++
		}
	}
	require.Equal(t, k.Len(), found)
	for _, s := range all {
		require.NoError(t, s.Close())
	}
	require.Zero(t, k.Len())
	list := told.list()
	require.Equal(t, uint64(len(list)), k.Stats().Opened)
	slices.SortFunc(list, func(a, b end) int { return strings.Compare(fmt.Sprintf("%p", a.conn), fmt.Sprintf("%p", b.conn)) })
	require.Equal(t, len(list), len(slices.CompactFunc(list, func(a, b end) bool { return a.conn == b.conn })), "each once")
}

// A client whose address changes goes on with its session, by its identity. Without a proof it is a stranger.
func TestAClientComesBackFromAnotherAddress(t *testing.T) {
	t.Parallel()
	conn := wrap(t, keepalive.Config{Timeout: time.Hour})
	known := map[string]*Session[int]{} // for the read loop only
	conn.Owner = func(datagram []byte, _ Path) *Session[int] {
		id, proof, _ := strings.Cut(string(datagram), " ")
		if proof != "signed" {
			return nil
		}
		return known[id]
	}
	conn.Accept = func(datagram []byte, _ Path) bool { return strings.HasPrefix(string(datagram), "hello") }
	var serving sync.WaitGroup
	serving.Go(func() {
		for buf := make([]byte, 100); ; {
			n, session, err := conn.Read(buf)
			if err != nil {
				return
			}
			id, _, _ := strings.Cut(string(buf[:n]), " ")
			if id == "reboot" {
				if session, err = session.Restart(); err != nil {
					return
				}
			}
			known[id] = session
			session.Value++
			_, _ = fmt.Fprintf(session, "%d", session.Value)
		}
	})
	t.Cleanup(func() { _ = conn.Close(); serving.Wait() })
	c := dial(t, conn, "127.0.0.1")
	require.Equal(t, "1", ask(t, c, "hello"))
	require.Equal(t, "2", ask(t, c, "hello"))
	moved := dial(t, conn, "127.0.0.1")
	_, err := moved.Write([]byte("other signed"))
	require.NoError(t, err)
	require.Equal(t, "3", ask(t, moved, "hello signed"))
	require.Equal(t, "4", ask(t, moved, "hello"))
	require.Equal(t, "1", ask(t, c, "hello"), "a stranger")
	require.Equal(t, "1", ask(t, moved, "reboot"))
}
