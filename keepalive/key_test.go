package keepalive

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

// user returns a guarded connection of a user from an address.
func user(t testing.TB, k *Keeper, address, key string) *Guard {
	g, err := guardOf(k, &net.TCPAddr{IP: net.ParseIP(address)})
	require.NoError(t, err)
	require.NoError(t, g.SetKey(key))
	return g
}

func keyOfUser(g *Guard) string {
	info, _ := g.Info()
	return info.Key
}

func TestAUserCountsApartFromItsAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const home = "192.0.2.1"
		var c closings
		k := newKeeper(t, Config{Room: Room{MaxPerKey: 2, MaxPerUser: 3}, OnClose: c.add})
		var ann []*Guard
		for range 3 {
			ann = append(ann, user(t, k, home, "ann"))
		}
		require.Zero(t, k.shares.keys(), "the address has all of its room")
		more := user(t, k, home, "")
		err := more.SetKey("ann")
		require.ErrorIs(t, err, ReasonFull)
		require.EqualError(t, err, `keepalive: too many connections with the key "ann", which may have 3`)
		require.Empty(t, keyOfUser(more))
		require.True(t, more.Touch(), "it stays")
		require.Equal(t, 1, k.shares.keys(), "and counts for its address")
		require.NoError(t, more.SetKey(home), "a user named like an address")
		require.Zero(t, k.shares.keys())
		require.Equal(t, home, keyOfUser(more))

		require.NoError(t, ann[0].SetKey("ann"), "the same key again")
		require.NoError(t, ann[0].SetKey("bob"))
		require.NoError(t, more.SetKey("ann"), "another key has made room")
		require.ErrorIs(t, ann[0].SetKey("ann"), ReasonFull)
		require.Equal(t, "bob", keyOfUser(ann[0]))
		require.True(t, ann[1].Close(ReasonLocal))
		synctest.Wait()
		require.NoError(t, ann[0].SetKey("ann"), "an end has made room")

		user(t, k, home, "")
		user(t, k, home, "")
		err = ann[0].SetKey("")
		require.EqualError(t, err, `keepalive: too many connections with the key "192.0.2.1", which may have 2`)
		require.Equal(t, "ann", keyOfUser(ann[0]))
		require.EqualValues(t, 3, k.Stats().RefusedPerUser)
		require.Len(t, c.list(), 1)
		require.True(t, more.Close(ReasonFull), "the program's last word to a refused one")
		synctest.Wait()
		require.EqualValues(t, 1, k.Stats().Closed[ReasonFull])
	})
}

func TestSetKeyWhereThereIsNoLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{})
		var all []*Guard
		for range 100 {
			all = append(all, user(t, k, "192.0.2.1", "ann"))
		}
		require.NoError(t, k.Update(Config{Room: Room{MaxPerKey: 90}}))
		require.NoError(t, all[0].SetKey("ann"), "those that are there stay")
		require.ErrorIs(t, user(t, k, "192.0.2.1", "bob").SetKey("ann"), ReasonFull, "MaxPerKey is the default, and all are counted")
		require.NoError(t, k.Update(Config{Room: Room{MaxPerKey: 90, MaxPerUser: 101}}))
		user(t, k, "192.0.2.1", "ann")
		require.NoError(t, k.Update(Config{}))
		user(t, k, "192.0.2.1", "ann")
		for _, g := range all {
			require.NoError(t, g.SetKey(""))
		}
		require.Zero(t, k.shares.keys(), "without a limit no address counts")
		exempt := newKeeper(t, Config{Room: Room{MaxPerKey: 1, Key: func(net.Addr) string { return "" }}})
		one, two := user(t, exempt, "192.0.2.1", "ann"), user(t, exempt, "192.0.2.1", "")
		require.ErrorIs(t, two.SetKey("ann"), ReasonFull)
		require.NoError(t, one.SetKey(""))
		require.NoError(t, two.SetKey("ann"))
	})
}

func TestSetKeyOfAConnectionThatIsNotGuarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Room: Room{MaxPerUser: 1}, Closing: Closing{Mode: CloseHalf}})
		require.Equal(t, ErrNotGuarded, (*Guard)(nil).SetKey("ann"))
		require.Equal(t, ErrNotGuarded, new(Guard).SetKey("ann"))
		ended := user(t, k, "192.0.2.1", "ann")
		require.NoError(t, ended.Conn().(net.Conn).Close())
		require.Equal(t, ErrNotGuarded, ended.SetKey("bob"))
		require.Zero(t, k.shares.groups.Len())

		leaving := user(t, k, "192.0.2.1", "ann")
		require.True(t, leaving.Close(ReasonLocal))
		synctest.Wait()
		require.Equal(t, ErrNotGuarded, leaving.SetKey("bob"))
		require.Equal(t, ErrNotGuarded, leaving.SetKey(""))

		left := user(t, k, "192.0.2.1", "bob")
		require.NoError(t, k.Close())
		require.Equal(t, ErrNotGuarded, left.SetKey("eve"))
		require.Zero(t, k.shares.groups.Len())
	})
}

func TestSetKeyDuringADrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Room: Room{MaxPerUser: 1}})
		one, two := user(t, k, "192.0.2.1", "ann"), user(t, k, "192.0.2.1", "")
		drained := make(chan error)
		go func() { drained <- k.Drain(t.Context(), time.Minute) }()
		time.Sleep(time.Second)
		stays := two
		if !two.isOpen() {
			stays = one
		}
		require.NoError(t, stays.SetKey("bob"))
		require.NoError(t, <-drained)
		require.Zero(t, k.shares.groups.Len())
	})
}

// The address may be known with the first bytes only, and the user before.
func TestALateAddressDoesNotCountForAUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Room: Room{MaxPerKey: 1}})
		for _, name := range []string{"ann", "bob", "eve"} {
			a, b := net.Pipe()
			c := k.Conn(&addrConn{Conn: a, addr: &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}})
			require.NoError(t, Of(c).SetKey(name))
			go func() { _, _ = b.Write([]byte("x")) }()
			_, err := io.ReadFull(c, make([]byte, 1))
			require.NoError(t, err)
		}
		require.Zero(t, k.shares.keys())
	})
}

func TestTheIdlestOfAUserMakesRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c closings
		k := newKeeper(t, Config{
			Timeout: time.Hour,
			Room:    Room{MaxPerUser: 3, Full: FullEvict, MinIdle: 5 * time.Second},
			Closing: Closing{Farewell: func(_ any, why Reason) []byte { return []byte("bye " + why.String()) }},
			OnClose: c.add,
		})
		other := user(t, k, "192.0.2.1", "bob") // the idlest of all
		time.Sleep(time.Second)
		idlest, peer := pipe(k)
		require.NoError(t, Of(idlest).SetKey("ann"))
		said := make(chan string, 1)
		go func() {
			all, _ := io.ReadAll(peer)
			said <- string(all)
		}()
		time.Sleep(time.Second)
		held := user(t, k, "192.0.2.1", "ann")
		time.Sleep(time.Second)
		last := user(t, k, "192.0.2.1", "ann")
		require.ErrorIs(t, user(t, k, "192.0.2.1", "").SetKey("ann"), ReasonFull, "none is idle for long enough")
		release := held.Hold()
		time.Sleep(3500 * ms)
		user(t, k, "192.0.2.1", "ann")
		require.Equal(t, "bye evicted", <-said)
		synctest.Wait()
		require.Equal(t, []closing{{idlest, ReasonEvicted}}, c.list())
		time.Sleep(time.Second)
		require.ErrorIs(t, user(t, k, "192.0.2.1", "").SetKey("ann"), ReasonFull, "the idlest is held")
		time.Sleep(time.Second)
		user(t, k, "192.0.2.1", "ann")
		time.Sleep(2 * time.Second) // nobody reads its farewell
		require.Equal(t, closing{last.Conn(), ReasonEvicted}, c.list()[1])
		release()
		require.True(t, other.Touch())

		// A limit that has become a lower one.
		time.Sleep(6 * time.Second)
		cfg := k.Config()
		cfg.Room.MaxPerUser = 1
		require.NoError(t, k.Update(cfg))
		user(t, k, "192.0.2.1", "ann")
		time.Sleep(2 * time.Second)
		require.Len(t, c.list(), 5, "all three leave")
	})
}

func TestADryRunEvictsNoneOfAUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c closings
		k := newKeeper(t, Config{Room: Room{MaxPerUser: 1, Full: FullEvict}, Closing: Closing{DryRun: true}, OnClose: c.add})
		for range 3 {
			user(t, k, "192.0.2.1", "ann")
			time.Sleep(2 * time.Second)
		}
		require.Empty(t, c.list())
		require.EqualValues(t, 2, k.Stats().WouldClose[ReasonEvicted], "one for the second, and one for the third")
		user(t, k, "192.0.2.1", "ann")
		require.ErrorIs(t, user(t, k, "192.0.2.1", "").SetKey("bob"), nil)
	})
}

// later is an adapter whose event loop decides when the test wants it to.
type later struct {
	mu  sync.Mutex
	due []adapter.Binding
}

func (l *later) Due(b adapter.Binding) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due = append(l.due, b)
}

func (l *later) Do(_ context.Context, _ adapter.Binding, f func()) error { f(); return nil }

func (l *later) Control(adapter.Binding, func(uintptr)) error { return errors.ErrUnsupported }
func (l *later) Peer(adapter.Binding) net.Addr                { return nil }
func (l *later) End(b adapter.Binding, _ adapter.Ending)      { b.Closed(false) }

// next takes one of those that are due, and reports false if there is none.
func (l *later) next() (b adapter.Binding, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.due) == 0 {
		return nil, false
	}
	b, l.due = l.due[0], l.due[1:]
	return b, true
}

// decide decides on all that are due.
func (l *later) decide() {
	for synctest.Wait(); ; synctest.Wait() {
		b, ok := l.next()
		if !ok {
			return
		}
		b.Decide()
	}
}

func (l *later) open(t testing.TB, k *Keeper) *Guard {
	g := new(Guard)
	require.NoError(t, k.Bind(g, g, l, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}))
	return g
}

func TestAnEvictedOneThatIsAliveLetsAnotherGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c closings
		k := newKeeper(t, Config{Room: Room{MaxPerUser: 2, Full: FullEvict}, OnClose: c.add})
		loop := new(later)
		var g []*Guard
		for range 4 {
			g = append(g, loop.open(t, k))
			time.Sleep(2 * time.Second)
		}
		require.NoError(t, g[0].SetKey("ann"))
		require.NoError(t, g[1].SetKey("ann"))
		require.NoError(t, g[2].SetKey("ann"))
		require.True(t, g[0].Touch(), "in front of the decision")
		loop.decide()
		require.Equal(t, []closing{{g[1], ReasonEvicted}}, c.list())

		require.ErrorIs(t, g[3].SetKey("ann"), nil)
		require.True(t, g[0].Touch())
		require.True(t, g[2].Touch())
		loop.decide()
		require.Equal(t, closing{g[3], ReasonFull}, c.list()[1], "all are alive, so the newcomer has no place")
		require.Equal(t, 2, k.Len())

		// If the newcomer has gone, nobody else has to.
		time.Sleep(2 * time.Second)
		more := loop.open(t, k)
		require.NoError(t, more.SetKey("ann"))
		require.True(t, g[0].Touch())
		require.True(t, g[2].Touch())
		require.NoError(t, more.SetKey("bob"))
		require.ErrorIs(t, loop.open(t, k).SetKey("ann"), ReasonFull, "nor is its place another one's")
		loop.decide()
		require.Len(t, c.list(), 2)

		// An evicted one that changes its key needs no place any more.
		time.Sleep(2 * time.Second)
		require.NoError(t, more.SetKey("ann"))
		leaving := g[0]
		if leaving.member().newcomer == nil {
			leaving = g[2]
		}
		require.NoError(t, leaving.SetKey("eve"))
		loop.decide()
		require.Len(t, c.list(), 2)
		require.Equal(t, 4, k.Len())
	})
}

// requireCounts checks the groups of a Keeper. It returns how many connections they have.
func (s *shares) requireCounts(t testing.TB, most int) (all int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, q := range s.groups.All() {
		leaving := 0
		for i, m := range q.members {
			if m.newcomer != nil {
				leaving++
			}
			if int(m.place) != i || m.group != q {
				t.Errorf("key %s: member %d has place %d", key, i, m.place)
			}
		}
		if key != q.key || len(q.members) == 0 || leaving != q.leaving || len(q.members)-leaving > most {
			t.Errorf("key %s: %d members of at most %d, and %d leave, by the count %d", key, len(q.members), most, leaving, q.leaving)
		}
		all += len(q.members)
	}
	return all
}

// After each of many random calls, in any order with the decisions, no key has more connections that stay than it may have.
func TestNoUserHasTooManyInAnyOrder(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 1))
			const most = 3
			full := FullEvict
			if seed%5 == 0 {
				full = FullReject
			}
			room := Room{MaxPerUser: most, MaxPerKey: 1000, Full: full, MaxConns: 14}
			k := newKeeper(t, Config{Timeout: time.Hour, Room: room})
			loop := new(later)
			var open []*Guard
			holds := map[*Guard]func(){}
			for range 400 {
				if len(open) == 0 || r.IntN(8) == 0 {
					g := new(Guard)
					if k.Bind(g, g, loop, &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}) == nil {
						open = append(open, g)
					}
				}
				g := new(Guard)
				if len(open) > 0 {
					g = open[r.IntN(len(open))]
				}
				switch n := r.IntN(24); {
				case n < 10:
					before, key := keyOfUser(g), []string{"", "a", "a", "b", "c"}[r.IntN(5)]
					if err := g.SetKey(key); err == nil {
						require.Equal(t, key, keyOfUser(g))
					} else {
						require.Equal(t, before, keyOfUser(g))
					}
				case n < 12:
					g.Touch()
				case n == 12 && holds[g] == nil:
					holds[g] = g.Hold()
				case n < 15 && holds[g] != nil:
					holds[g]()
					delete(holds, g)
				case n < 17:
					if g.Binding().Release() {
						g.Binding().Closed(false)
					}
				case n == 17:
					g.Close(ReasonLocal)
				case n < 20:
					time.Sleep(time.Duration(r.Int64N(int64(2 * time.Second))))
				case n < 23:
					synctest.Wait()
					if b, ok := loop.next(); ok {
						b.Decide()
					}
				default:
					loop.decide()
				}
				in := 0
				for i := 0; i < len(open); i++ {
					if !open[i].isOpen() {
						open = append(open[:i], open[i+1:]...)
						i--
					} else if keyOfUser(open[i]) != "" {
						in++
					}
				}
				require.Equal(t, in, k.shares.requireCounts(t, most))
				outside := 0
				if all := k.shares.addresses.Get("192.0.2.1"); all != nil {
					outside = all.conns
				}
				require.Equal(t, len(open)-in, outside)
			}
			loop.decide()
			require.LessOrEqual(t, k.Len(), 14)
			for _, g := range open {
				g.Close(ReasonLocal)
			}
			loop.decide()
			require.Zero(t, k.shares.groups.Len())
			require.Zero(t, k.shares.keys())
		})
	}
}

func TestNoUserHasTooManyAtOnce(t *testing.T) {
	const most = 4
	k := newKeeper(t, Config{Timeout: time.Minute, Tick: ms, Room: Room{MaxPerUser: most, MaxPerKey: 1000, Full: FullEvict, MinIdle: ms}})
	var wg sync.WaitGroup
	for w := range 6 {
		wg.Go(func() {
			for i := range 60 {
				g, err := guardOf(k, &net.TCPAddr{IP: net.IPv4(192, 0, 2, byte(w))})
				if err != nil {
					t.Error(err)
				}
				var both sync.WaitGroup
				for j := range 2 {
					both.Go(func() {
						for n := range 5 {
							_ = g.SetKey(strconv.Itoa((i + j + n) % 3))
							g.Touch()
							g.Info()
						}
						if (i+j)%3 == 0 {
							_ = g.SetKey("")
						}
					})
				}
				k.shares.requireCounts(t, most)
				if i%2 == 0 {
					_ = g.Conn().(net.Conn).Close()
				}
				both.Wait()
			}
		})
	}
	wg.Wait()
	for g := range k.Guards() {
		_ = g.Conn().(net.Conn).Close()
	}
	require.Eventually(t, func() bool { return k.Stats().Leaving == 0 && k.shares.requireCounts(t, most) == 0 }, eternal, ms)
	require.Zero(t, k.shares.keys())
}

// A program that reads nothing spares all of its connections: the search for one that may go has an end.
func TestASearchForRoomEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Hour, Room: Room{MaxPerUser: 200, Full: FullEvict}})
		loop := new(later)
		var all []*Guard
		for range 200 {
			g := loop.open(t, k)
			require.NoError(t, g.SetKey("ann"))
			all = append(all, g)
		}
		time.Sleep(2 * time.Second)
		newcomer := loop.open(t, k)
		require.NoError(t, newcomer.SetKey("ann"))
		for spared := 0; newcomer.isOpen(); spared++ {
			require.Less(t, spared, 2*searchMembers)
			synctest.Wait()
			b, ok := loop.next()
			require.True(t, ok)
			g := b.(binding).Guard
			if g != newcomer {
				g.Touch()
			}
			b.Decide()
		}
		for _, g := range all {
			require.True(t, g.isOpen())
		}
	})
}

// Whatever comes together with what: a connection counts once, and no count is left when all have ended, or when the Keeper has.
func TestNoCountIsLostOrGivenBackTwice(t *testing.T) {
	for _, closes := range []bool{false, true} {
		k, err := New(Config{
			Timeout: time.Hour, Tick: ms,
			Room:    Room{MaxConns: 60, MaxPerKey: 20, MaxPerUser: 10, Full: FullEvict, MinIdle: ms},
			Closing: Closing{Farewell: func(any, Reason) []byte { return []byte("bye") }, Timeout: ms},
		})
		require.NoError(t, err)
		address := func(n int) net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, byte(n)), Port: 1} }
		var goes, all sync.WaitGroup
		for i := range 8 {
			goes.Go(func() {
				for j := range 100 {
					inner, _ := net.Pipe()
					c := &conn{inner: inner, keeper: k, guard: new(Guard), noted: newNoted()}
					g := c.guard
					if k.Bind(g, c, c, []net.Addr{nil, address(i % 3)}[j%2]) != nil {
						continue
					}
					for n := range 3 {
						all.Go(func() {
							switch (i + j + n) % 5 {
							case 0:
								_ = g.SetKey(strconv.Itoa(j % 4))
								_ = g.Binding().Move(address(j % 4))
							case 1:
								_ = g.Binding().Identify(address(j % 4))
								_ = g.SetKey("")
							case 2:
								g.Close(ReasonLocal)
							case 3:
								_ = g.SetKey(strconv.Itoa(n))
								_ = c.Close()
							default:
								_ = g.Binding().Move(address(n))
								_ = g.SetKey("ann")
							}
						})
					}
				}
			})
		}
		if closes {
			time.Sleep(ms)
			require.NoError(t, k.Close())
		}
		goes.Wait()
		all.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), eternal)
		if !closes {
			require.NoError(t, k.Drain(ctx, 0))
		}
		cancel()
		require.Eventually(t, func() bool { return k.Stats().Leaving == 0 }, eternal, ms)
		require.Zero(t, k.shares.keys())
		require.Zero(t, k.shares.groups.Len())
		require.NoError(t, k.Close())
	}
}
