package keepalive

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// Last_data_sent and Last_ack_recv are milliseconds, Rtt, Rttvar and Rto microseconds.
func TestWhatIsKnownFromTheFiguresOfTheKernel(t *testing.T) {
	for name, c := range map[string]struct {
		info        unix.TCPInfo
		sent, acked time.Duration // plus tooOld
	}{
		"sent, and acknowledged at once": {unix.TCPInfo{Last_data_sent: 5000, Last_ack_recv: 5000}, 5 * time.Second, 5 * time.Second},
		"a keepalive was acknowledged just now": {
			unix.TCPInfo{Last_data_sent: 5000, Last_ack_recv: 1000, Rtt: 100_000, Rttvar: 25_000}, 5 * time.Second, 4600 * ms,
		},
		"nothing was sent for long, and the last acknowledgement is later": {
			unix.TCPInfo{Last_data_sent: 5000, Last_ack_recv: 4900, Rtt: 100_000, Rttvar: 25_000}, 5 * time.Second, 4900 * ms,
		},
		"sent again, three times": {
			unix.TCPInfo{Last_data_sent: 5000, Unacked: 1, Options: timestamps, Rto: 8_000_000, Backoff: 3}, 12 * time.Second, 11800 * ms,
		},
		"the same, acknowledged": {
			unix.TCPInfo{Last_data_sent: 5000, Options: timestamps, Rto: 8_000_000, Backoff: 3}, 5 * time.Second, 4800 * ms,
		},
		"the same, without timestamps": {
			unix.TCPInfo{Last_data_sent: 5000, Unacked: 1, Options: timestamps << 1, Rto: 8_000_000, Backoff: 3}, 5 * time.Second, 4800 * ms,
		},
	} {
		require.Equal(t, c.sent-tooOld, sentAtLeast(&c.info), name)
		require.Equal(t, c.acked-tooOld, tookAtLeast(&c.info), name)
	}
	require.Zero(t, tookAtLeast(new(unix.TCPInfo)))
	require.Zero(t, atLeast(0))
}

func TestWhatASocketTells(t *testing.T) {
	tell := func(info unix.TCPInfo) report {
		e := report{unread: 30}
		e.fill(&info)
		return e
	}
	info := unix.TCPInfo{Last_data_recv: 1000, Last_data_sent: 2000, Last_ack_recv: 3000, Rtt: 50_000, Bytes_received: 100, Bytes_acked: 40}
	want := report{
		unread: 30, taken: 70, received: time.Second - tooOld, roundTrip: 50 * ms,
		sent: 2*time.Second - tooOld, acked: 40, took: 3*time.Second - tooOld,
	}
	require.Equal(t, want, tell(info))
	require.EqualValues(t, 100, want.arrived())

	again := info
	again.Retransmits = 1
	e := tell(again)
	require.Equal(t, 3*time.Second-tooOld, e.sent, "the bytes sent again are no news")
	again.Last_ack_recv = 1000
	e = tell(again)
	require.Equal(t, 2*time.Second-tooOld, e.sent)

	under := info
	under.Unacked = 1
	e = tell(under)
	require.True(t, e.pending)
	require.Zero(t, e.queued)
	require.True(t, e.flying)
	require.Equal(t, 2*time.Second-tooOld, e.left)
	waits := info
	waits.Notsent_bytes = 1
	e = tell(waits)
	require.True(t, e.pending)
	require.Positive(t, e.queued)
	require.False(t, e.flying)
	require.Equal(t, 1, e.queued)
}

func TestRoundedUpToMilliseconds(t *testing.T) {
	require.Equal(t, 4*ms, roundedUp(4*ms))
	require.Equal(t, 10*time.Second/3000+ms, roundedUp(10*time.Second/3000), "300 Hz")
	require.GreaterOrEqual(t, jiffy(), ms)
	require.LessOrEqual(t, jiffy(), 10*ms)
}

// The kernel's clock may have been behind when bytes came. While they wait for this program, the peer has the benefit.
func TestWaitingBytesMayHaveComeLaterThanTheKernelSays(t *testing.T) {
	was := behind
	behind = time.Hour
	t.Cleanup(func() { behind = was })
	for _, activity := range []Activity{ActivityRead, ActivityManual} {
		k := newKeeper(t, Config{Timeout: time.Hour, Activity: activity})
		peer, inner := connect(t, "tcp")
		conn := k.Conn(inner)
		_, err := peer.Write([]byte("x"))
		require.NoError(t, err)
		g := Of(conn)
		require.Eventually(t, func() bool { s, _ := g.look(); return s.Unread == 1 }, eternal, ms)
		time.Sleep(2 * (tooOld + ms))

		before := k.now()
		s, _ := g.look()
		require.GreaterOrEqual(t, s.Received, before, activity)
		require.GreaterOrEqual(t, s.Heard, before, activity)

		_, err = conn.Read(make([]byte, 1))
		require.NoError(t, err)
		s, _ = g.look()
		require.Less(t, s.Received, before, "once they are read, a touch tells")
	}
}
