package udpkeepalive

import (
	"net"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// fake is a Socket without a network. Its test is the read loop.
type fake struct {
	unread int
	lost   uint32
	woken  chan struct{}

	mu   sync.Mutex
	sent []string
}

func newFake() *fake { return &fake{woken: make(chan struct{}, 1)} }

func (f *fake) Wake() {
	select {
	case f.woken <- struct{}{}:
	default:
	}
}
func (f *fake) Unread() int  { return f.unread }
func (f *fake) Lost() uint32 { return f.lost }

func (f *fake) WriteTo(b []byte, path Path) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.sent = append(f.sent, path.Peer.String()+" "+string(b))
	return len(b), nil
}

// ends are the calls of OnClose.
type ends struct {
	mu  sync.Mutex
	all []end
}

type end struct {
	conn   *Session[int]
	reason keepalive.Reason
}

func (e end) String() string { return e.conn.Peer().String() + " " + e.reason.String() }

func (e *ends) add(conn any, reason keepalive.Reason) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.all = append(e.all, end{conn.(*Session[int]), reason})
}

func (e *ends) list() []end {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.all
}

// requireEnds compares sessions as such. A comparison by require would print all of them.
func requireEnds(t *testing.T, ended *ends, want ...end) {
	t.Helper()
	if got := ended.list(); !slices.Equal(want, got) {
		require.Fail(t, "other ends", "want %v\ngot  %v", want, got)
	}
}

const second = time.Second

var (
	alice = netip.MustParseAddrPort("192.0.2.1:1000")
	bob   = netip.MustParseAddrPort("192.0.2.2:1000")
)

// bubble runs a test with fake time, a socket without a network, and its sessions.
func bubble(t *testing.T, cfg keepalive.Config, test func(t *testing.T, f *fake, s *Sessions[int], ended *ends)) {
	synctest.Test(t, func(t *testing.T) {
		var ended ends
		cfg.OnClose = ended.add
		k, err := keepalive.New(cfg)
		require.NoError(t, err)
		defer k.Close()
		f := newFake()
		s := New[int](f, k)
		defer s.Close()
		test(t, f, s, &ended)
	})
}

func heard(t *testing.T, s *Sessions[int], peer netip.AddrPort) *Session[int] {
	session, err := s.Heard(Path{Peer: peer})
	require.NoError(t, err)
	return session
}

// pass lets time pass, and waits until all is quiet.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func TestSilentSessionEndsWhenTheLoopDecides(t *testing.T) {
	t.Parallel()
	cfg := keepalive.Config{Timeout: 10 * second, Closing: keepalive.Closing{
		Farewell: func(_ any, reason keepalive.Reason) []byte { return []byte("bye " + reason.String()) },
	}}
	bubble(t, cfg, func(t *testing.T, f *fake, s *Sessions[int], ended *ends) {
		session := heard(t, s, alice)
		pass(10*second - 1)
		require.Empty(t, f.woken)
		pass(second)
		require.NotEmpty(t, f.woken)
		require.Empty(t, ended.list(), "the loop decides, and nobody else")
		require.Same(t, session, s.Find(Path{Peer: alice}))
		require.False(t, s.Decide(0))
		requireEnds(t, ended, end{session, keepalive.ReasonIdle})
		require.Nil(t, s.Find(Path{Peer: alice}))
		require.Equal(t, []string{"192.0.2.1:1000 bye idle"}, f.sent)
	})
}

// A session is due for its age while the loop handles its goodbye.
func TestNobodyIsToldOfAnAgeAfterTheEnd(t *testing.T) {
	t.Parallel()
	told := 0
	cfg := keepalive.Config{Timeout: time.Hour, Age: keepalive.Age{
		Max: 10 * second, Jitter: -1, Grace: second, OnMax: func(any) { told++ },
	}}
	bubble(t, cfg, func(t *testing.T, _ *fake, s *Sessions[int], ended *ends) {
		session := heard(t, s, alice)
		pass(11 * second)
		require.NoError(t, session.Close())
		s.Decide(1)
		requireEnds(t, ended, end{session, keepalive.ReasonLocal})
		require.Zero(t, told)
	})
}

// The session's datagram is in the socket when its deadline passes.
func TestDatagramInTheSocketSavesItsSession(t *testing.T) {
	t.Parallel()
	for _, activity := range []keepalive.Activity{keepalive.ActivityRead, keepalive.ActivityManual} {
		bubble(t, keepalive.Config{Timeout: 10 * second, Activity: activity}, func(t *testing.T, f *fake, s *Sessions[int], ended *ends) {
			session := heard(t, s, alice)
			keepalive.Touch(session)
			f.unread = 3
			pass(25 * second)
			require.True(t, s.Decide(0))
			heard(t, s, bob)
			f.unread = 2
			require.True(t, s.Decide(1))
			keepalive.Touch(heard(t, s, alice))
			f.unread = 1
			require.True(t, s.Decide(1))
			require.Empty(t, ended.list())
			heard(t, s, bob)
			f.unread = 0
			require.False(t, s.Decide(1))
			require.Empty(t, ended.list())
			require.Same(t, session, s.Find(Path{Peer: alice}))
		})
	}
}

func TestSocketThatIsNeverEmptyHoldsUpNoDecision(t *testing.T) {
	t.Parallel()
	bubble(t, keepalive.Config{Timeout: 10 * second}, func(t *testing.T, f *fake, s *Sessions[int], ended *ends) {
		silent := heard(t, s, alice)
		pass(8 * second)
		f.unread = 100
		heard(t, s, bob)
		pass(3 * second)
		for range 100 {
			require.True(t, s.Decide(1), "begins with the first call")
			require.Empty(t, ended.list())
			heard(t, s, bob)
		}
		require.False(t, s.Decide(1))
		requireEnds(t, ended, end{silent, keepalive.ReasonIdle})
		require.NotNil(t, s.Find(Path{Peer: bob}))
	})
}

// A few sessions at a time, or the datagrams that still come would wait for all of them.
func TestManyDueSessionsDoNotHoldUpTheDatagrams(t *testing.T) {
	t.Parallel()
	bubble(t, keepalive.Config{Timeout: 10 * second}, func(t *testing.T, f *fake, s *Sessions[int], ended *ends) {
		for port := range uint16(10 * batch) {
			heard(t, s, netip.AddrPortFrom(alice.Addr(), port))
		}
		pass(11 * second)
		f.unread = 1
		require.True(t, s.Decide(0))
		for i := range 10 {
			require.Equal(t, i < 9, s.Decide(1))
			require.Len(t, ended.list(), batch*(i+1))
		}
	})
}

// The socket has dropped datagrams in the silence. So the session gets its timeout once more.
func TestSilenceWithLostDatagramsProvesNothing(t *testing.T) {
	t.Parallel()
	bubble(t, keepalive.Config{Timeout: 10 * second}, func(t *testing.T, f *fake, s *Sessions[int], ended *ends) {
		session := heard(t, s, alice)
		for range 3 {
			f.lost++
			pass(11 * second)
			require.False(t, s.Decide(0))
			require.Empty(t, ended.list())
			f.lost++
			pass(8 * second)
			s.Decide(0)
			require.Same(t, session, heard(t, s, alice), "heard again, so it may be spared again")
		}
		f.lost++
		pass(11 * second)
		s.Decide(0)
		require.Empty(t, ended.list())
		f.lost++
		pass(11 * second)
		s.Decide(0)
		requireEnds(t, ended, end{session, keepalive.ReasonIdle})

		again := heard(t, s, alice)
		pass(11 * second)
		s.Decide(0)
		requireEnds(t, ended, ended.list()[0], end{again, keepalive.ReasonIdle})
	})
}

// Nobody comes due for long, and the socket was full before the silence.
func TestALossBeforeTheSilenceSparesNobody(t *testing.T) {
	t.Parallel()
	bubble(t, keepalive.Config{Timeout: 10 * second}, func(t *testing.T, f *fake, s *Sessions[int], ended *ends) {
		heard(t, s, alice)
		f.lost++
		for range batch { // those in front of it
			heard(t, s, bob)
			require.False(t, s.Decide(1))
		}
		pass(5 * second)
		session := heard(t, s, alice)
		_ = s.Find(Path{Peer: bob}).Close()
		require.False(t, s.Decide(1))
		pass(11 * second)
		s.Decide(0)
		require.Len(t, ended.list(), 2)
		require.Equal(t, end{session, keepalive.ReasonIdle}, ended.list()[1])
	})
}

// A flood fills the socket for ever, and datagrams are lost all the time. A silent session ends within
// two timeouts all the same, also after months.
func TestEndlessLossesKeepNoSilentSession(t *testing.T) {
	t.Parallel()
	for _, uptime := range []time.Duration{0, 49 * 24 * time.Hour, 50 * 24 * time.Hour, 1000 * 24 * time.Hour} {
		bubble(t, keepalive.Config{Timeout: 10 * second}, func(t *testing.T, f *fake, s *Sessions[int], ended *ends) {
			s.queue.losses.begun = s.queue.losses.begun.Add(-uptime)
			f.unread = 100
			silent := heard(t, s, alice)
			begun := time.Now()
			for len(ended.list()) == 0 && time.Since(begun) < time.Minute {
				f.lost++
				heard(t, s, bob)
				s.Decide(1)
				pass(10 * time.Millisecond)
			}
			requireEnds(t, ended, end{silent, keepalive.ReasonIdle})
			require.Greater(t, time.Since(begun), 20*second-time.Millisecond)
			require.Less(t, time.Since(begun), 23*second, "two timeouts, and twice the time for 101 datagrams")
		})
	}
}

// Losses don't keep what nobody has confirmed, and nobody for another reason than silence.
func TestLostDatagramsSpareNobodyElse(t *testing.T) {
	t.Parallel()
	cfg := keepalive.Config{
		Timeout: 10 * second, FirstMessage: second, Activity: keepalive.ActivityManual,
		Age: keepalive.Age{Max: 25 * second, Jitter: -1},
	}
	bubble(t, cfg, func(t *testing.T, f *fake, s *Sessions[int], ended *ends) {
		heard(t, s, alice)
		f.lost++
		pass(2 * second)
		s.Decide(0)
		require.Equal(t, keepalive.ReasonFirstMessage, ended.list()[0].reason)

		session := heard(t, s, bob)
		keepalive.Touch(session)
		f.lost++
		keepalive.Of(session).Close(keepalive.ReasonTooMany)
		pass(second)
		s.Decide(0)
		require.Equal(t, keepalive.ReasonTooMany, ended.list()[1].reason)

		session = heard(t, s, bob)
		for range 5 {
			keepalive.Touch(session)
			f.lost++
			pass(5 * second)
			s.Decide(0)
		}
		pass(second)
		s.Decide(0)
		require.Equal(t, keepalive.ReasonMaxAge, ended.list()[2].reason)
	})
}

// A spoofed session lives for FirstMessage, and a confirmed one for Timeout.
func TestSessionsOfNobodyGoSoon(t *testing.T) {
	t.Parallel()
	cfg := keepalive.Config{
		Timeout: 100 * second, FirstMessage: 3 * second, Activity: keepalive.ActivityManual,
		Room: keepalive.Room{MaxConns: 2},
	}
	bubble(t, cfg, func(t *testing.T, _ *fake, s *Sessions[int], ended *ends) {
		confirmed, spoofed := heard(t, s, alice), heard(t, s, bob)
		require.True(t, keepalive.Touch(confirmed))
		_, err := s.Heard(Path{Peer: netip.MustParseAddrPort("192.0.2.3:1")})
		require.ErrorIs(t, err, keepalive.ReasonFull)
		pass(4 * second)
		heard(t, s, bob) // more datagrams are no confirmation
		s.Decide(1)
		requireEnds(t, ended, end{spoofed, keepalive.ReasonFirstMessage})
		pass(90 * second)
		s.Decide(0)
		require.Len(t, ended.list(), 1)
	})
}

func TestAddressesAreLimitedEachByItself(t *testing.T) {
	t.Parallel()
	for address, tests := range map[string]struct{ same, other string }{
		"192.0.2.1:1":        {"192.0.2.1:2", "192.0.2.2:1"},
		"[2001:db8::1]:1":    {"[2001:db8::ffff:2]:2", "[2001:db8:0:1::1]:1"},
		"[::ffff:9.0.0.1]:1": {"9.0.0.1:2", "9.0.0.2:1"},
	} {
		bubble(t, keepalive.Config{Room: keepalive.Room{MaxPerKey: 1}}, func(t *testing.T, _ *fake, s *Sessions[int], _ *ends) {
			first := heard(t, s, netip.MustParseAddrPort(address))
			for range 3 {
				_, err := s.Heard(Path{Peer: netip.MustParseAddrPort(tests.same)})
				require.ErrorIs(t, err, keepalive.ReasonFull)
			}
			heard(t, s, netip.MustParseAddrPort(tests.other))
			require.NoError(t, first.Close())
			heard(t, s, netip.MustParseAddrPort(tests.same))
			require.EqualValues(t, 3, s.keeper.Stats().RefusedPerKey)
		})
	}
}

func TestAnAddressIsTheSameMappedOrNotAndAnotherOneOnAnotherLink(t *testing.T) {
	t.Parallel()
	bubble(t, keepalive.Config{}, func(t *testing.T, f *fake, s *Sessions[int], _ *ends) {
		session := heard(t, s, netip.MustParseAddrPort("[::ffff:192.0.2.1]:1000"))
		require.Same(t, session, heard(t, s, alice))
		require.Same(t, session, s.Find(Path{Peer: netip.MustParseAddrPort("[::ffff:192.0.2.1]:1000")}))
		require.Equal(t, alice, session.Peer())
		link := heard(t, s, netip.MustParseAddrPort("[fe80::1%eth0]:1"))
		require.NotSame(t, link, heard(t, s, netip.MustParseAddrPort("[fe80::1%eth1]:1")))
		_, err := link.Write([]byte("hello"))
		require.NoError(t, err)
		require.Equal(t, []string{"[fe80::1%eth0]:1 hello"}, f.sent)
	})
}

func TestStaleSessionDoesNotReachItsSuccessor(t *testing.T) {
	t.Parallel()
	bubble(t, keepalive.Config{Timeout: 10 * second}, func(t *testing.T, f *fake, s *Sessions[int], ended *ends) {
		stale := heard(t, s, alice)
		stale.Value = 1
		require.NoError(t, stale.Close())
		require.NoError(t, stale.Close())
		next := heard(t, s, alice)
		require.NotSame(t, stale, next)
		require.Zero(t, next.Value)
		_, err := stale.Write([]byte("to nobody"))
		require.ErrorIs(t, err, net.ErrClosed)
		require.Empty(t, f.sent)
		require.False(t, keepalive.Touch(stale))
		require.False(t, keepalive.Of(stale).Close(keepalive.ReasonDrain))
		require.NoError(t, stale.Close())
		require.Same(t, next, s.Find(Path{Peer: alice}))
		requireEnds(t, ended, end{stale, keepalive.ReasonLocal})
		pass(11 * second)
		s.Decide(0)
		requireEnds(t, ended, ended.list()[0], end{next, keepalive.ReasonIdle})
	})
}

func TestCloseEndsAllAndNothingBeginsAfterIt(t *testing.T) {
	t.Parallel()
	bubble(t, keepalive.Config{}, func(t *testing.T, _ *fake, s *Sessions[int], ended *ends) {
		heard(t, s, alice)
		heard(t, s, bob)
		require.NoError(t, s.Close())
		require.NoError(t, s.Close())
		require.Len(t, ended.list(), 2)
		_, err := s.Heard(Path{Peer: alice})
		require.ErrorIs(t, err, net.ErrClosed)
		require.Zero(t, s.keeper.Len())
	})
}

// After Keeper.Close a flood would fill the map: nobody ends its sessions.
func TestClosedKeeperGetsNoMoreSessions(t *testing.T) {
	t.Parallel()
	bubble(t, keepalive.Config{}, func(t *testing.T, _ *fake, s *Sessions[int], _ *ends) {
		before := heard(t, s, alice)
		require.NoError(t, s.keeper.Close())
		require.Same(t, before, heard(t, s, alice))
		require.NotSame(t, heard(t, s, bob), heard(t, s, bob))
		require.Equal(t, 1, s.of.Len())
		_, err := heard(t, s, bob).Write([]byte("hello"))
		require.NoError(t, err)
	})
}

// With keepalive.FullEvict there is always room, for a spoofed address, too.
func TestEvictionIsNoRefusal(t *testing.T) {
	t.Parallel()
	cfg := keepalive.Config{Room: keepalive.Room{MaxConns: 1, Full: keepalive.FullEvict, MinIdle: second}}
	bubble(t, cfg, func(t *testing.T, _ *fake, s *Sessions[int], ended *ends) {
		idlest := heard(t, s, alice)
		pass(5 * second)
		heard(t, s, bob)
		synctest.Wait()
		s.Decide(1)
		requireEnds(t, ended, end{idlest, keepalive.ReasonEvicted})
	})
}

func TestRefusedDatagramsAllocateNothing(t *testing.T) {
	k, err := keepalive.New(keepalive.Config{
		Activity: keepalive.ActivityManual, FirstMessage: second,
		Room: keepalive.Room{MaxConns: 1, MaxPerKey: 10},
	})
	require.NoError(t, err)
	defer k.Close()
	s := New[int](newFake(), k)
	defer s.Close()
	heard(t, s, alice)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if _, err := s.Heard(Path{Peer: bob}); err == nil {
			t.Fatal("not refused")
		}
	}))
	require.Positive(t, k.Stats().RefusedFull)
}

func TestMemoryComesBackAfterACrowdOfSessions(t *testing.T) {
	const crowd = 20_000
	heap := func() int {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc)
	}
	k, err := keepalive.New(keepalive.Config{})
	require.NoError(t, err)
	defer k.Close()
	s := New[int](newFake(), k)
	defer s.Close()
	before := heap()
	for i := range uint32(crowd) {
		heard(t, s, crowded(i))
	}
	full := heap() - before
	t.Logf("%d bytes for each session", full/crowd)
	for i := range uint32(crowd) {
		require.NoError(t, s.Find(Path{Peer: crowded(i)}).Close())
	}
	require.Less(t, heap()-before, full/10)
}

// crowded returns the i-th address of a crowd.
func crowded(i uint32) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 1000)
}

func TestSessionsNeedASocketAndAKeeper(t *testing.T) {
	k, err := keepalive.New(keepalive.Config{})
	require.NoError(t, err)
	defer k.Close()
	for _, made := range []*keepalive.Keeper{nil, new(keepalive.Keeper)} {
		require.PanicsWithValue(t, "udpkeepalive: New needs a Socket and a Keeper from keepalive.New", func() { New[int](new(fake), made) })
		require.PanicsWithValue(t, "udpkeepalive: Wrap needs a socket and a Keeper from keepalive.New", func() { Wrap[int](new(net.UDPConn), made) })
	}
	require.PanicsWithValue(t, "udpkeepalive: New needs a Socket and a Keeper from keepalive.New", func() { New[int](nil, k) })
	require.PanicsWithValue(t, "udpkeepalive: Wrap needs a socket and a Keeper from keepalive.New", func() { Wrap[int](nil, k) })
}
