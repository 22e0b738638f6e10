package keepalive

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ActivityKernel: a peer that has said its first message at once, and FirstMessage.
func TestKernelFirstMessageAtOnce(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, Config{Timeout: 30 * time.Second, FirstMessage: time.Second, Activity: ActivityKernel})
	client, server := connect(t, "tcp")
	conn := k.Conn(server)
	_, err := client.Write([]byte("hello"))
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 5))
	require.NoError(t, err)
	time.Sleep(3 * time.Second)
	require.Equal(t, 1, k.Len(), "its timeout is 30s: %v", k.Stats().Closed)
}

// ActivityKernel: a silence that was ignored is followed by life and another silence.
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
	case <-time.After(5 * time.Second):
		t.Fatal("OnIdle is not asked about the second silence")
	}
}

// Hops that are shorter than the timeout.
func TestKernelHops(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, Config{Timeout: 1500 * ms, Activity: ActivityKernel, Tick: 10 * ms, PressureTimeout: 50 * ms, Pressure: func() float64 { return 0 }})
	client, server := connect(t, "tcp")
	conn := k.Conn(server)
	var last time.Time
	for range 2 {
		time.Sleep(1400 * ms)
		last = time.Now()
		_, err := client.Write([]byte("x"))
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 1))
		require.NoError(t, err)
	}
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, ErrIdleTimeout)
	late := time.Since(last) - 1500*ms
	t.Log("late by", late)
	require.GreaterOrEqual(t, late, time.Duration(0))
	require.Less(t, late, 200*ms)
}
