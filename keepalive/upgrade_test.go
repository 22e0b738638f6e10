package keepalive

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func noProbe() error { return nil }

// An upgraded connection is probed, the others of its Keeper are not.
func TestAnUpgradeHasAProbeOfItsOwn(t *testing.T) {
	for _, probing := range []Probing{{}, {After: 20 * time.Second}, {Send: func(any) error { panic("the other probe") }}} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeeper(t, Config{Timeout: time.Minute, Probe: probing})
			conn, peer := pipe(k)
			begin := time.Now()
			var probes []time.Duration
			require.NoError(t, Of(conn).Binding().Upgrade(func() error {
				probes = append(probes, time.Since(begin))
				return nil
			}, nil))
			go func() { // bytes are no life
				for {
					if _, err := peer.Write([]byte("x")); err != nil {
						return
					}
					time.Sleep(time.Second)
				}
			}()
			_, err := io.Copy(io.Discard, conn)
			require.ErrorIs(t, err, ReasonNoAnswer)
			require.GreaterOrEqual(t, time.Since(begin), time.Minute)
			require.LessOrEqual(t, time.Since(begin), time.Minute+2*time.Second, "three times some ticks, since bytes come without a touch")
			require.Len(t, probes, 1)
			after := k.policy.Load().upgraded.ProbeAfter
			require.GreaterOrEqual(t, probes[0], after*3/4)
			require.LessOrEqual(t, probes[0], after+2*time.Second)

			time.Sleep(time.Second) // the writer ends
			if probing.Send == nil {
				conn, _ = pipe(k)
				requireClosed(t, k, conn, ReasonIdle, time.Now(), time.Minute)
			}
		})
	}
}

func TestAnAnswerKeepsAnUpgradedConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute})
		conn, _ := pipe(k)
		g := Of(conn)
		require.NoError(t, g.Binding().Upgrade(func() error {
			time.AfterFunc(2*time.Second, func() { g.Pong() })
			return nil
		}, nil))
		time.Sleep(time.Hour)
		require.True(t, g.isOpen())
		require.Equal(t, 2*time.Second, roundTrip(conn))
		at, reason, ok := g.Deadline()
		require.True(t, ok)
		require.Equal(t, ReasonNoAnswer, reason)
		require.LessOrEqual(t, time.Until(at), time.Minute+time.Second)

		require.ErrorIs(t, g.SetActivity(ActivityReadWrite), ErrArgument)
		require.NoError(t, g.SetActivity(ActivityRead))
		require.NoError(t, conn.Close())
		require.ErrorIs(t, g.Binding().Upgrade(noProbe, nil), ErrNotGuarded)
		require.ErrorIs(t, (*Guard)(nil).Binding().Upgrade(noProbe, nil), ErrNotGuarded)
	})
}

// The farewell is written through the layers of the program. The program learns of the end later.
func TestAnUpgradeHasAFarewellOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := new(closings)
		k := newKeeper(t, Config{
			Timeout: time.Minute,
			Closing: Closing{Farewell: func(any, Reason) []byte { return []byte("past all layers") }, Mode: CloseHalf},
			OnClose: told.add,
		})
		conn, peer := pipe(k)
		begun := make(chan struct{})
		require.NoError(t, Of(conn).Binding().Upgrade(noProbe, func(reason net.Error, deadline time.Time) {
			require.Equal(t, ReasonDrain, reason)
			require.Equal(t, time.Second, time.Until(deadline))
			close(begun)
			time.Sleep(500 * ms)
			require.NoError(t, conn.Close(), "the program has to wait")
			_, err := conn.Write([]byte("bye"))
			require.NoError(t, err)
		}))
		ended := make(chan time.Time, 1)
		go func() {
			_, err := conn.Read(make([]byte, 1))
			ended <- time.Now()
			require.ErrorIs(t, err, ReasonDrain)
			_ = conn.Close()
		}()
		go func() {
			<-begun
			_, _ = peer.Write([]byte("x")) // the reader would fail at once
		}()
		start := time.Now()
		drained := make(chan error, 1)
		go func() { drained <- k.Drain(context.Background(), 0) }()
		got, err := io.ReadAll(peer)
		require.NoError(t, err)
		require.Equal(t, "bye", string(got))
		require.Equal(t, 500*ms, (<-ended).Sub(start).Truncate(100*ms))
		require.NoError(t, <-drained)
		require.Equal(t, []closing{{conn, ReasonDrain}}, told.list())
		_, err = conn.Write([]byte("later"))
		require.ErrorIs(t, err, ReasonDrain)
	})
}

// A stuck farewell is cut off.
func TestAnUpgradesFarewellIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := new(closings)
		k := newKeeper(t, Config{Timeout: time.Minute, Closing: Closing{Timeout: 3 * time.Second}, OnClose: told.add, Logger: slog.New(slog.DiscardHandler)})
		conn, _ := pipe(k)
		require.NoError(t, Of(conn).Binding().Upgrade(noProbe, func(net.Error, time.Time) {
			_, err := conn.Write([]byte("nobody reads that"))
			require.ErrorIs(t, err, net.ErrClosed)
			panic("and it may panic")
		}))
		begin := time.Now()
		require.True(t, Of(conn).Close(ReasonLocal))
		_, err := conn.Read(make([]byte, 1))
		require.ErrorIs(t, err, ReasonLocal)
		require.Equal(t, 3*time.Second, time.Since(begin).Truncate(100*ms))
		synctest.Wait()
		require.Equal(t, []closing{{conn, ReasonLocal}}, told.list())
	})
}

// A program may close its layers once the context is done. So the context ends after the farewell.
func TestTheContextEndsAfterTheFarewell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute})
		conn, peer := pipe(k)
		ctx := Of(conn).Context()
		require.NoError(t, Of(conn).Binding().Upgrade(noProbe, func(net.Error, time.Time) {
			time.Sleep(100 * ms)
			require.NoError(t, ctx.Err())
			_, err := conn.Write([]byte("bye"))
			require.NoError(t, err)
		}))
		require.True(t, Of(conn).Close(ReasonLocal))
		got, err := io.ReadAll(peer)
		require.NoError(t, err)
		require.Equal(t, "bye", string(got))
		require.ErrorIs(t, context.Cause(ctx), ReasonLocal)
	})
}

// So does one that is first asked for during the farewell.
func TestAContextOfTheFarewell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute})
		conn, _ := pipe(k)
		var ctx context.Context
		require.NoError(t, Of(conn).Binding().Upgrade(noProbe, func(net.Error, time.Time) {
			ctx = Of(conn).Context()
			require.NoError(t, ctx.Err())
		}))
		require.True(t, Of(conn).Close(ReasonLocal))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.ErrorIs(t, context.Cause(ctx), ReasonLocal)
	})
}

// Who learns of the end by a Read, a Write or a Close finds the reason in the context, also during the farewell.
func TestTheContextIsDoneWhenTheProgramLearnsOfTheEnd(t *testing.T) {
	for name, learn := range map[string]func(conn, peer net.Conn) error{
		"bytes of the peer": func(conn, peer net.Conn) error {
			go func() { _, _ = peer.Write([]byte("x")) }()
			_, err := conn.Read(make([]byte, 1))
			return err
		},
		"the peer has gone": func(conn, peer net.Conn) error {
			_ = peer.Close()
			_, err := conn.Read(make([]byte, 1))
			return err
		},
		"a write": func(conn, peer net.Conn) error {
			_ = peer.Close()
			_, err := conn.Write([]byte("x"))
			return err
		},
		"a close": func(conn, _ net.Conn) error { return errors.Join(conn.Close(), ReasonLocal) },
	} {
		synctest.Test(t, func(t *testing.T) {
			k := newKeeper(t, Config{Timeout: time.Minute})
			conn, peer := pipe(k)
			ctx := Of(conn).Context()
			written := make(chan bool)
			require.NoError(t, Of(conn).Binding().Upgrade(noProbe, func(net.Error, time.Time) {
				_, err := conn.Write([]byte("bye"))
				require.NoError(t, err)
				close(written)
				time.Sleep(500 * ms) // as for the peer's answer
			}))
			require.True(t, Of(conn).Close(ReasonLocal))
			_, err := io.ReadFull(peer, make([]byte, 3))
			require.NoError(t, err)
			<-written
			require.NoError(t, ctx.Err(), name)
			require.ErrorIs(t, learn(conn, peer), ReasonLocal, name)
			cause := context.Cause(ctx)
			time.Sleep(time.Second)
			require.ErrorIs(t, cause, ReasonLocal, name)
		})
	}
}

// A farewell that does not return holds nobody up beyond its time.
func TestAReaderDoesNotWaitForAStuckFarewell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := newKeeper(t, Config{Timeout: time.Minute, Closing: Closing{Timeout: 3 * time.Second}})
		conn, peer := pipe(k)
		ctx := Of(conn).Context()
		over := make(chan struct{})
		require.NoError(t, Of(conn).Binding().Upgrade(noProbe, func(net.Error, time.Time) { <-over }))
		begin := time.Now()
		require.True(t, Of(conn).Close(ReasonLocal))
		synctest.Wait()
		go func() { _, _ = peer.Write([]byte("x")) }()
		read := make(chan error, 1)
		go func() {
			_, err := conn.Read(make([]byte, 1))
			read <- err
		}()
		select {
		case err := <-read:
			require.ErrorIs(t, err, ReasonLocal)
		case <-time.After(time.Hour):
			t.Error("the reader waits for ever")
		}
		require.Equal(t, 3*time.Second, time.Since(begin).Truncate(100*ms))
		<-ctx.Done() // after the farewell, and perhaps after the read
		require.ErrorIs(t, context.Cause(ctx), ReasonLocal)
		close(over)
	})
}

// An upgrade during a close fails, or has its farewell.
func TestUpgradesAndClosesAtOnce(t *testing.T) {
	k := newKeeper(t, Config{Timeout: time.Minute})
	for range 200 {
		conn, peer := pipe(k)
		var said atomic.Bool
		upgraded := make(chan error, 1)
		go func() {
			upgraded <- Of(conn).Binding().Upgrade(noProbe, func(net.Error, time.Time) {
				said.Store(true)
				_, _ = conn.Write([]byte("bye"))
			})
		}()
		go Of(conn).Close(ReasonLocal)
		go func() { _, _ = conn.Read(make([]byte, 1)); _ = conn.Close() }()
		var got bytes.Buffer
		_, _ = io.Copy(&got, peer)
		if err := <-upgraded; err != nil {
			require.ErrorIs(t, err, ErrNotGuarded)
			require.Empty(t, got.String())
		}
		require.Equal(t, said.Load(), got.String() == "bye")
	}
}
