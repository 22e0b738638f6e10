package keepalive

import (
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ActivityKernel with FirstMessage: the peer says its first message at once.
func TestKernelFirstMessageAtOnce(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, Config{Timeout: eternal, FirstMessage: timeout, Activity: ActivityKernel})
	client, server := connect(t, "tcp")
	conn := k.Conn(server)
	_, err := client.Write([]byte("hello"))
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 5))
	require.NoError(t, err)
	time.Sleep(2 * timeout)
	require.Equal(t, 1, k.Len(), "its timeout is a minute: %v", k.Stats().Closed)
}

// spoken returns both ends of a connection after its first message, already read.
func spoken(t *testing.T, k *Keeper) (client, conn net.Conn) {
	client, server := connect(t, "tcp")
	conn = k.Conn(server)
	speak(t, client, conn)
	return client, conn
}

func speak(t *testing.T, client, conn net.Conn) {
	_, err := client.Write([]byte("beat"))
	require.NoError(t, err)
	_, err = io.ReadFull(conn, make([]byte, 4))
	require.NoError(t, err)
}

// requireEnd waits for the end of the only connection, for a reason.
func requireEnd(t *testing.T, k *Keeper, client net.Conn, why Reason) {
	require.NoError(t, client.SetReadDeadline(time.Now().Add(eternal)))
	_, err := client.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.Eventually(t, func() bool { return k.Len() == 0 }, eternal, ms)
	require.Eventually(t, func() bool { return k.Stats().Closed[why] == 1 }, eternal, ms, "%v", k.Stats().Closed)
}

// The timeout begins with the first message, however long that may take.
func TestKernelTimeoutMayBeShorterThanFirstMessage(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, Config{Timeout: timeout, Tick: 10 * ms, Activity: ActivityKernel, FirstMessage: time.Hour})
	client, _ := spoken(t, k)
	requireEnd(t, k, client, ReasonIdle)
}

// With ActivityReadWrite it begins with the first byte acknowledged by the peer.
func TestAcknowledgedBytesEndFirstMessage(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, Config{Timeout: timeout, Tick: 10 * ms, Activity: ActivityReadWrite, FirstMessage: time.Hour})
	client, server := connect(t, "tcp")
	_, err := k.Conn(server).Write([]byte("x"))
	require.NoError(t, err)
	_, err = io.ReadFull(client, make([]byte, 1))
	require.NoError(t, err)
	requireEnd(t, k, client, ReasonIdle)
}

// With ActivityKernel only the socket knows of the first message. A change after it is a touch.
func TestKernelChangeAfterTheFirstMessage(t *testing.T) {
	t.Parallel()
	t.Run("a shorter timeout", func(t *testing.T) {
		t.Parallel()
		k := newKeeper(t, Config{Timeout: time.Hour, Activity: ActivityKernel, FirstMessage: time.Hour})
		client, conn := spoken(t, k)
		_, err := Of(conn).SetTimeout(timeout)
		require.NoError(t, err)
		requireEnd(t, k, client, ReasonIdle)
		require.Zero(t, k.Stats().Slow)
	})
	t.Run("a touch", func(t *testing.T) {
		t.Parallel()
		k := newKeeper(t, Config{Timeout: eternal, Activity: ActivityKernel, FirstMessage: timeout * 5 / 4})
		client, conn := spoken(t, k)
		time.Sleep(timeout * 3 / 4)
		begin := time.Now()
		_, err := Of(conn).SetTimeout(timeout)
		require.NoError(t, err)
		requireEnd(t, k, client, ReasonIdle)
		require.GreaterOrEqual(t, time.Since(begin), timeout)
	})
	t.Run("another Activity", func(t *testing.T) {
		t.Parallel()
		k := newKeeper(t, Config{Timeout: time.Hour, Activity: ActivityKernel, FirstMessage: timeout})
		_, conn := spoken(t, k)
		require.NoError(t, Of(conn).SetActivity(ActivityManual))
		time.Sleep(2 * timeout)
		require.Equal(t, 1, k.Len(), "its timeout is an hour: %v", k.Stats().Closed)
	})
}

// A change before the first message does not end FirstMessage.
func TestKernelChangeBeforeTheFirstMessage(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, Config{Timeout: time.Hour, Activity: ActivityKernel, FirstMessage: timeout})
	client, server := connect(t, "tcp")
	_, err := Of(k.Conn(server)).SetTimeout(2 * time.Hour)
	require.NoError(t, err)
	requireEnd(t, k, client, ReasonFirstMessage)
}

// Afterwards the kernel's word counts, and nobody touches for a read.
func TestKernelBeginsBeforeTheFirstMessage(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, Config{Timeout: timeout, Tick: 10 * ms, FirstMessage: time.Hour})
	client, server := connect(t, "tcp")
	conn := k.Conn(server)
	require.NoError(t, Of(conn).SetActivity(ActivityKernel))
	speak(t, client, conn)
	requireEnd(t, k, client, ReasonIdle)
}

// A peer speaks in the time given by Extend, and then it dies.
func TestKernelSilenceAfterExtend(t *testing.T) {
	t.Parallel()
	asked := make(chan bool, 100)
	verdicts := make(chan Verdict, 2)
	verdicts <- Extend(time.Hour)
	verdicts <- Close
	k := newKeeper(t, Config{Timeout: timeout, Tick: 10 * ms, Activity: ActivityKernel, OnIdle: func(any, Reason) Verdict {
		asked <- true
		return <-verdicts
	}})
	client, server := connect(t, "tcp")
	conn := k.Conn(server)
	<-asked
	speak(t, client, conn)
	requireEnd(t, k, client, ReasonIdle)
}

// The time that OnIdle takes does not make the decision a late one.
func TestKernelSlowOnIdle(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	k := newKeeper(t, Config{Timeout: timeout, Activity: ActivityKernel, OnIdle: func(any, Reason) Verdict {
		asked.Add(1)
		time.Sleep(timeout / 2)
		return Close
	}})
	client, conn := spoken(t, k)
	time.Sleep(beat) // the first deadline finds this message, and its arrival becomes the touch
	speak(t, client, conn)
	requireEnd(t, k, client, ReasonIdle)
	require.EqualValues(t, 1, asked.Load())
}

// ActivityKernel: an ignored silence is followed by life and another silence.
func TestKernelIgnoreIsForEver(t *testing.T) {
	t.Parallel()
	asked := make(chan time.Time, 100)
	k := newKeeper(t, Config{Timeout: 500 * ms, Activity: ActivityKernel, Tick: 10 * ms, OnIdle: func(any, Reason) Verdict {
		asked <- time.Now()
		return Ignore
	}})
	client, server := connect(t, "tcp")
	conn := k.Conn(server)
	<-asked
	_, err := client.Write([]byte("hello"))
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 5))
	require.NoError(t, err)
	select {
	case <-asked:
	case <-time.After(eternal):
		t.Fatal("OnIdle is not asked about the second silence")
	}
}

// Hops shorter than the timeout. A machine with other work makes an end late too, but not each
// time.
func TestKernelHops(t *testing.T) {
	t.Parallel()
	var lates []time.Duration
	for range 10 {
		late, quick := lateAfterHops(t)
		if quick && late < 200*ms {
			return
		}
		lates = append(lates, late)
	}
	require.Fail(t, "it is always late", "%v", lates)
}

// lateAfterHops reports how much later than it should a connection is closed, and whether this
// machine was quick enough to keep it alive until then.
func lateAfterHops(t *testing.T) (late time.Duration, quick bool) {
	k := newKeeper(t, Config{Timeout: timeout, Activity: ActivityKernel, Tick: 10 * ms, Room: Room{Pressure: Pressure{Timeout: 50 * ms, Used: func() float64 { return 0 }}}})
	client, server := connect(t, "tcp")
	last := time.Now()
	conn := k.Conn(server)
	for range 2 {
		time.Sleep(timeout * 3 / 4)
		now := time.Now()
		_, err := client.Write([]byte("x"))
		if time.Since(last) > timeout*7/8 {
			return 0, false
		}
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 1))
		require.NoError(t, err)
		last = now
	}
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, ErrIdleTimeout)
	late = time.Since(last) - timeout
	t.Log("late by", late)
	require.GreaterOrEqual(t, late, time.Duration(0))
	return late, true
}

func TestKernelWithPolicies(t *testing.T) {
	t.Parallel()
	t.Run("FirstMessage", func(t *testing.T) {
		t.Parallel()
		k := newKeeper(t, Config{Timeout: 4 * timeout, Tick: 10 * ms, Activity: ActivityKernel, FirstMessage: timeout})
		mute, server := connect(t, "tcp")
		begin := time.Now()
		k.Conn(server)
		speaks, server := connect(t, "tcp")
		k.Conn(server)
		_, err := speaks.Write([]byte("x"))
		require.NoError(t, err)
		_, err = mute.Read(make([]byte, 1))
		require.ErrorIs(t, err, io.EOF)
		require.GreaterOrEqual(t, time.Since(begin), timeout)
		require.Less(t, time.Since(begin), 3*timeout+forgiven(k))
		require.Eventually(t, func() bool { return k.Stats().Closed[ReasonFirstMessage] == 1 }, eternal, ms)
		_, err = speaks.Read(make([]byte, 1))
		require.Error(t, err)
		require.GreaterOrEqual(t, time.Since(begin), 4*timeout)
		require.Eventually(t, func() bool { return k.Stats().Closed[ReasonIdle] == 1 }, eternal, ms)
	})
	t.Run("DryRun", func(t *testing.T) {
		t.Parallel()
		k := newKeeper(t, Config{Timeout: timeout, Tick: 10 * ms, Activity: ActivityKernel, Closing: Closing{DryRun: true}})
		client, server := connect(t, "tcp")
		k.Conn(server)
		would := func() uint64 { return k.Stats().WouldClose[ReasonIdle] }
		require.Eventually(t, func() bool { return would() == 1 }, eternal, ms)
		time.Sleep(3 * timeout)
		require.EqualValues(t, 1, would(), "once for a silence")
		_, err := client.Write([]byte("x"))
		require.NoError(t, err)
		require.Eventually(t, func() bool { return would() == 2 }, eternal, ms, "and again for the next")
		require.Equal(t, 1, k.Len())
	})
	t.Run("Probe", func(t *testing.T) {
		t.Parallel()
		k := newKeeper(t, Config{
			Timeout:  4 * timeout,
			Tick:     10 * ms,
			Activity: ActivityKernel,
			Probe: Probing{
				After: timeout,
				Send: func(conn any) error {
					_, err := conn.(net.Conn).Write([]byte("?"))
					return err
				},
			},
		})
		answers, server := connect(t, "tcp")
		k.Conn(server)
		hangs, server := connect(t, "tcp")
		begin := time.Now()
		k.Conn(server)
		busy, server := connect(t, "tcp")
		k.Conn(server)
		go func() {
			for {
				if _, err := answers.Read(make([]byte, 1)); err != nil {
					return
				}
				_, _ = answers.Write([]byte("!"))
			}
		}()
		go trickle(busy, 200)
		got, err := io.ReadAll(hangs)
		require.NoError(t, err)
		require.Equal(t, "?", string(got))
		require.GreaterOrEqual(t, time.Since(begin), timeout*3/4+3*timeout)
		require.Eventually(t, func() bool { return k.Stats().Closed[ReasonNoAnswer] == 1 }, eternal, ms)
		require.Equal(t, 2, k.Len())
		require.Eventually(t, func() bool { return k.Stats().Probes >= 4 }, eternal, ms)
		require.NoError(t, busy.SetReadDeadline(time.Now().Add(ms)))
		_, err = busy.Read(make([]byte, 1))
		require.Error(t, err, "it was never asked")
	})
}
