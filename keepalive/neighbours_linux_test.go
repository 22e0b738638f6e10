package keepalive

import (
	"bufio"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Policies and calls that meet each other on one connection.

var (
	home = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}
	away = &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2)}
)

func TestAConnectionThatWasShedIsNotToldOfItsAgeAsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told atomic.Int64
		k := newKeeper(t, Config{Timeout: time.Hour, Age: Age{
			Max: 10 * time.Second, Jitter: -1, Grace: 5 * time.Second, OnMax: func(any) { told.Add(1) },
		}})
		_, err := guardOf(k, home)
		require.NoError(t, err)
		time.Sleep(8 * time.Second)
		n, err := k.Shed(t.Context(), Shed{Count: 1})
		require.NoError(t, err)
		require.Equal(t, 1, n)
		require.EqualValues(t, 1, told.Load())
	})
}

// SetKey, and back, while the address is becoming known.
func TestAnAddressKnownLateIsCountedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g *Guard
		meanwhile := false
		k := newKeeper(t, Config{Room: Room{MaxPerKey: 2, Key: func(net.Addr) string {
			if meanwhile {
				meanwhile = false
				require.NoError(t, g.SetKey("ann"))
				require.NoError(t, g.SetKey(""))
			}
			return "home"
		}}})
		g, err := guardOf(k, nil)
		require.NoError(t, err)
		meanwhile = true
		require.Nil(t, g.Binding().Identify(home))
		require.Equal(t, "home", g.member().address)
		g.Close(ReasonLocal)
		require.Eventually(t, func() bool { return k.shares.keys() == 0 }, eternal, ms, "each share is given back")
	})
}

func TestAConnectionThatMovesWithAKeyCountsForItsNewAddressAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Room: Room{MaxPerKey: 2}})
		g, err := guardOf(k, home)
		require.NoError(t, err)
		require.NoError(t, g.SetKey("ann"))
		require.NoError(t, g.Binding().Move(away))
		require.NoError(t, g.SetKey("bob"))
		require.Zero(t, k.shares.keys())
		require.NoError(t, g.SetKey(""))
		require.Equal(t, keyOf(away), g.member().address)
	})
}

// Room.Key may take its time, and the key may go meanwhile: the one change comes before the other.
func TestAConnectionThatMovesWhileItLosesItsKeyCountsForItsNewAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g *Guard
		moves := false
		k := newKeeper(t, Config{Room: Room{MaxPerKey: 2, Key: func(a net.Addr) string {
			if moves {
				moves = false
				require.NoError(t, g.SetKey(""))
				require.Equal(t, keyOf(home), g.member().address)
			}
			return keyOf(a)
		}}})
		g, err := guardOf(k, home)
		require.NoError(t, err)
		require.NoError(t, g.SetKey("ann"))
		moves = true
		require.NoError(t, g.Binding().Move(away))
		require.Equal(t, keyOf(away), g.member().address)
		require.Equal(t, 1, k.shares.keys())
	})
}

// A dry run counts as many evictions as there would be, and refuses nobody whom the policy would take.
func TestADryRunCountsOneEvictionForOneMoreOfAUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Room: Room{MaxPerUser: 1, Full: FullEvict}, Closing: Closing{DryRun: true}})
		for i := range 6 {
			g, err := guardOf(k, home)
			require.NoError(t, err)
			require.NoError(t, g.SetKey("ann"), "connection %d", i)
			time.Sleep(5 * time.Second)
		}
		require.EqualValues(t, 5, k.Stats().WouldClose[ReasonEvicted])
	})
}

// The program of a refused Conn is told at once, and leaves what the peer sends to the last words.
func TestARefusedConnReadsNothing(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, Config{Room: Room{MaxConns: 1}, Closing: Closing{Timeout: eternal}, OnRefuse: saySorry})
	_, first := connect(t, "tcp")
	k.Conn(first)
	peer, inner := connect(t, "tcp")
	_, err := peer.Write([]byte("hello\n"))
	require.NoError(t, err)
	_, err = k.Conn(inner).Read(make([]byte, 10))
	require.ErrorIs(t, err, ReasonFull)
	line, err := bufio.NewReader(peer).ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, sorry, line)
}

// A stalled peer's connection is reset, upgraded or not, and its context is done before.
func TestTheContextOfAStalledUpgradeIsDoneBeforeTheClose(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, Config{Timeout: eternal, WriteStall: 300 * ms})
	_, inner := connect(t, "tcp")
	closing := &closedWhen{TCPConn: inner.(*net.TCPConn)}
	c := k.Conn(closing)
	require.NoError(t, Of(c).Binding().Upgrade(func() error { return nil }, nil))
	closing.ctx = Of(c).Context()
	_, err := c.Write(make([]byte, 64<<20))
	require.ErrorIs(t, err, ReasonWriteStall)
	<-closing.ctx.Done()
	require.Eventually(t, closing.closed.Load, eternal, ms)
	require.True(t, closing.done.Load())
}

// closedWhen knows whether the context was done when it was closed.
type closedWhen struct {
	*net.TCPConn
	ctx          context.Context
	closed, done atomic.Bool
}

func (c *closedWhen) Close() error {
	c.done.Store(c.ctx.Err() != nil)
	c.closed.Store(true)
	return c.TCPConn.Close()
}
