package keepalive

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
)

// In these tests the peer is well, and the program on our side is slow.

// short is a timeout for tests of several timeouts.
const short = 700 * ms

// talk writes a byte ten times per short, for a time, and returns when it began to write the
// last one. It reports false if this machine let the peer pause for too long.
func talk(t *testing.T, peer io.Writer, d time.Duration) (last time.Time, steady bool) {
	last = time.Now()
	for end := last.Add(d); time.Now().Before(end); {
		time.Sleep(short / 10)
		before := last
		last = time.Now()
		_, err := peer.Write([]byte("x"))
		if time.Since(before) > short/2 {
			return last, false
		}
		require.NoError(t, err)
	}
	return last, true
}

// eachNetwork runs a test with TCP and with Unix sockets: those know less. It runs the test again
// if this machine was too busy for it.
func eachNetwork(t *testing.T, test func(t *testing.T, network string) (steady bool)) {
	for _, network := range networksHere() {
		t.Run("network="+network, func(t *testing.T) {
			t.Parallel()
			for !test(t, network) {
				continue
			}
		})
	}
}

// The program waits for a database, say, and reads nothing for several timeouts.
func TestSlowHandlerClosesNoPeerThatGoesOnSending(t *testing.T) {
	t.Parallel()
	eachActivity(t, []Activity{ActivityRead, ActivityReadWrite, ActivityManual}, func(t *testing.T, activity Activity) {
		eachNetwork(t, func(t *testing.T, network string) bool {
			return testSlowHandler(t, network, activity, func(c net.Conn) net.Conn { return c })
		})
	})
}

func testSlowHandler(t *testing.T, network string, activity Activity, layer func(net.Conn) net.Conn) bool {
	var log logtest.Log
	k := newKeeper(t, Config{Timeout: short, Tick: 20 * ms, Activity: activity, Logger: log.Logger(slog.LevelWarn)})
	peer, inner := connect(t, network)
	conn := k.Conn(layer(inner))
	spoke, steady := talk(t, peer, 6*short)
	guarded := k.Len()
	_, failure := conn.Read(make([]byte, 1000))
	touched := Touch(conn)
	if !steady || time.Since(spoke) > short/2 {
		return false
	}
	require.Equal(t, 1, guarded)
	require.Positive(t, k.Stats().Slow)
	require.Contains(t, log.String(), "bytes wait that this program does not read")
	require.NoError(t, failure)
	require.True(t, touched)

	// Slow again, and now the peer vanishes.
	last := time.Now()
	_, err := peer.Write([]byte("x"))
	if time.Since(spoke) > short { // it may be closed
		return false
	}
	require.NoError(t, err)
	require.Eventually(t, func() bool { return k.Len() == 0 }, eternal, ms)
	require.GreaterOrEqual(t, time.Since(last), short)
	require.Less(t, time.Since(last), 6*short+forgiven(k))
	return true
}

// The peer sends more than the queue takes, and has to wait until the program reads. Then it says nothing more.
func TestAFullQueueIsNoSilenceOfThePeer(t *testing.T) {
	t.Parallel()
	eachActivity(t, activitiesHere(), func(t *testing.T, activity Activity) {
		for _, network := range networksHere() {
			pieces := []int{32 << 10}
			if network == "unix" { // whose bytes may fill their sender's buffer by their packets alone
				pieces = append(pieces, 1000, 1)
			}
			for _, piece := range pieces {
				t.Run(fmt.Sprintf("network=%s/piece=%d", network, piece), func(t *testing.T) {
					t.Parallel()
					testFullQueue(t, connect, network, activity, piece)
				})
			}
		}
	})
}

func testFullQueue(t *testing.T, connect func(t testing.TB, network string) (peer, inner net.Conn), network string, activity Activity, piece int) {
	for {
		peer, inner := connect(t, network)
		if testFullQueueOf(t, peer, inner, activity, piece) {
			return
		}
	}
}

func testFullQueueOf(t *testing.T, peer, inner net.Conn, activity Activity, piece int) (steady bool) {
	const timeout = 100 * ms
	k := newKeeper(t, Config{Timeout: timeout, Tick: 5 * ms, Activity: activity})
	stop := fill(t, peer, inner, piece)
	conn := k.Conn(inner)
	require.Eventually(t, func() bool { return k.Stats().Slow > 2*maxRounds || k.Len() == 0 }, eternal, ms)
	require.Equal(t, 1, k.Len())

	all := make([]byte, 8<<20) // for few reads: a slow reader has few rounds
	sent, read := stop(), time.Now()
	got, err := int64(0), error(nil)
	for err == nil {
		var n int
		n, err = conn.Read(all)
		got += int64(n)
	}
	if got < sent && time.Since(read) > timeout { // this machine let a Read wait for long, with all that the peer has said
		return false
	}
	requireIdleTimeout(t, err)
	require.Equal(t, sent, got)
	require.GreaterOrEqual(t, time.Since(read), timeout)
	return true
}

// fill has a peer write pieces until the receive queue is full, and ever after. stop ends that, and returns how many bytes
// were written.
func fill(t *testing.T, peer, inner net.Conn, piece int) (stop func() int64) {
	sent := make(chan int64, 1)
	go func() {
		for written := int64(0); ; {
			n, err := peer.Write(make([]byte, piece))
			if written += int64(n); err != nil {
				sent <- written
				return
			}
		}
	}()
	require.Eventually(t, func() (full bool) {
		return control(inner, func(fd uintptr) { full = ask(fd).full }) == nil && full
	}, eternal, ms)
	return func() int64 {
		require.NoError(t, peer.SetWriteDeadline(time.Now()))
		return <-sent
	}
}

// The program has read a message when the deadline passes, and is about to call Touch.
func TestBytesThatAreReadAndNotYetTouchedForAreNoSilence(t *testing.T) {
	eachNetwork(t, testReadBeforeTouch)
}

func testReadBeforeTouch(t *testing.T, network string) bool {
	k := newKeeper(t, Config{Timeout: short, Tick: 100 * ms, Activity: ActivityManual})
	peer, inner := connect(t, network)
	touched := time.Now()
	conn := k.Conn(inner)
	time.Sleep(short / 2)
	_, err := peer.Write([]byte("x"))
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 10))
	if time.Since(touched) > short*3/4 {
		return false
	}
	require.NoError(t, err)
	unspared := time.Now()
	for now := unspared; k.Stats().Spared == 0 && k.Len() > 0; now = time.Now() { // until the deadline has passed
		unspared = now
		time.Sleep(ms)
	}
	alive := Touch(conn)
	if time.Since(unspared) > 100*ms { // a tick: by now there was another decision
		return false
	}
	require.True(t, alive, "after %v", time.Since(touched))
	return true
}

// With ActivityManual only messages count. Bytes without a message gain some rounds at most.
func TestBytesThatNobodyTouchesForKeepNobody(t *testing.T) {
	eachNetwork(t, func(t *testing.T, network string) bool {
		k := newKeeper(t, Config{Timeout: short, Tick: 20 * ms, Activity: ActivityManual})
		peer, inner := connect(t, network)
		begin := time.Now()
		conn := k.Conn(inner)
		go func() {
			for ; time.Since(begin) < eternal; time.Sleep(short / 10) {
				if _, err := peer.Write([]byte("x")); err != nil {
					return
				}
			}
		}()
		_, err := io.Copy(io.Discard, struct{ io.Reader }{conn})
		requireIdleTimeout(t, err)
		require.GreaterOrEqual(t, time.Since(begin), short)
		require.Less(t, time.Since(begin), 6*short+forgiven(k))
		return true
	})
}

// The program reads each byte at once, and the bytes are no message: it is not slow.
func TestAProgramThatReadsIsNotBlamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Log
		k := newKeeper(t, Config{Timeout: short, Tick: 20 * ms, Activity: ActivityManual, Logger: log.Logger(slog.LevelWarn)})
		conn, peer := pipe(k)
		var trickling sync.WaitGroup
		trickling.Go(func() { trickle(peer, 100) })
		defer trickling.Wait()
		_, err := io.Copy(io.Discard, struct{ io.Reader }{conn})
		requireIdleTimeout(t, err)
		require.Positive(t, k.Stats().Spared)
		require.Zero(t, k.Stats().Slow)
		require.Empty(t, log.String())
	})
}

func TestReadIdleSeesBytesThatWaitToBeRead(t *testing.T) {
	t.Parallel()
	eachNetwork(t, func(t *testing.T, network string) bool {
		k := newKeeper(t, Config{Timeout: time.Minute, Tick: 20 * ms, ReadIdle: short})
		peer, inner := connect(t, network)
		conn := k.Conn(inner)
		last, steady := talk(t, peer, 4*short)
		_, err := conn.Read(make([]byte, 1000))
		if !steady || time.Since(last) > short/2 {
			return false
		}
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 1000))
		require.ErrorIs(t, err, ReasonReadIdle)
		require.GreaterOrEqual(t, time.Since(last), short)
		require.Less(t, time.Since(last), 6*short+forgiven(k))
		return true
	})
}
