package keepalive

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAnInspectionHasWhatTheSocketSays(t *testing.T) {
	infos := make(chan Info)
	over := make(chan struct{})
	defer close(over)
	k := newKeeper(t, inspects("info", 10*ms, func(_ *Guard, info Info) (time.Duration, Verdict) {
		select {
		case infos <- info:
		case <-over:
		}
		return 0, Ignore
	}))
	client, server := connect(t, "tcp")
	c := k.Conn(server)
	until := func(is func(info Info) bool) {
		t.Helper()
		require.Eventually(t, func() bool { return is(<-infos) }, eternal, ms)
	}
	_, err := client.Write(make([]byte, 1000))
	require.NoError(t, err)
	until(func(i Info) bool { return i.Received == 1000 && i.Unread == 1000 })
	_, err = c.Read(make([]byte, 400))
	require.NoError(t, err)
	until(func(i Info) bool { return i.Received == 1000 && i.Unread == 600 })
	_, err = c.Write(make([]byte, 500))
	require.NoError(t, err)
	until(func(i Info) bool { return i.Acked == 500 && i.Unacked == 0 && i.SmoothedRTT > 0 && i.DeliveryRate > 0 })

	// The client reads nothing, and its buffers are full some time.
	const all = 64 << 20
	go func() { _, _ = c.Write(make([]byte, all)) }()
	var stuck Info
	until(func(i Info) bool {
		same := i.Acked == stuck.Acked && i.Unacked > 0
		stuck = i
		return same && i.Unacked > 1<<14 && i.Acked < all
	})
}
