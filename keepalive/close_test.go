package keepalive

import (
	"bytes"
	"io"
	"net"
	"runtime"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func farewell(_ any, reason Reason) []byte { return []byte("BYE " + reason.String() + "\n") }

func TestFarewellAndEndOfStream(t *testing.T) {
	t.Parallel()
	for _, mode := range []CloseMode{CloseGraceful, CloseHalf} {
		for _, network := range []string{"tcp", "unix"} {
			t.Run(mode.String()+"/"+network, func(t *testing.T) {
				t.Parallel()
				k := newNetKeeper(t, Config{Farewell: farewell, CloseMode: mode})
				client, server := connect(t, network)
				begin := time.Now()
				conn := k.Conn(server)
				got, err := io.ReadAll(client)
				require.NoError(t, err)
				require.Equal(t, "BYE idle\n", string(got))
				require.GreaterOrEqual(t, time.Since(begin), timeout)
				require.NoError(t, client.Close())
				_, err = io.Copy(io.Discard, conn)
				require.ErrorIs(t, err, ErrIdleTimeout)
				require.Eventually(t, func() bool { return k.Stats().Closed[ReasonIdle] == 1 }, eternal, ms)
			})
		}
	}
}

func TestCloseResetResets(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("what a reset looks like is another matter elsewhere")
	}
	k := newNetKeeper(t, Config{CloseMode: CloseReset})
	client, server := connect(t, "tcp")
	k.Conn(server)
	_, err := client.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

// A peer that is still sending, into a server that doesn't read, would lose the
// farewell to a reset if the connection were closed at once.
func TestCloseHalfLetsAPeerFinish(t *testing.T) {
	t.Parallel()
	k := newNetKeeper(t, Config{Activity: ActivityManual, Farewell: farewell, CloseMode: CloseHalf})
	client, server := connect(t, "tcp")
	conn := k.Conn(server)
	go func() { // read by nobody but the one who waits for the end
		for {
			if _, err := client.Write(make([]byte, 1000)); err != nil {
				return
			}
			time.Sleep(ms)
			if conn.(Guarded).Guarded().Reason() != 0 {
				time.Sleep(beat)
				_ = client.(*net.TCPConn).CloseWrite()
				return
			}
		}
	}()
	got, err := io.ReadAll(client)
	require.NoError(t, err)
	require.Equal(t, "BYE idle\n", string(got))
}

// A peer that doesn't close its side, and one that takes nothing, hold up nobody for
// longer than FarewellTimeout.
func TestFarewellIsBounded(t *testing.T) {
	t.Parallel()
	for _, mode := range []CloseMode{CloseGraceful, CloseHalf} {
		for _, full := range []bool{false, true} {
			k := newNetKeeper(t, Config{
				Farewell: farewell, FarewellTimeout: timeout, CloseMode: mode,
			})
			client, server := connect(t, "tcp")
			conn := k.Conn(server)
			if full {
				go func() { _, _ = conn.Write(make([]byte, 64<<20)) }()
			}
			begin := time.Now()
			require.Eventually(t, func() bool { return k.Stats().Closed[ReasonIdle] == 1 }, eternal, ms)
			require.GreaterOrEqual(t, time.Since(begin)+10*ms, timeout)
			if full || mode == CloseHalf {
				require.GreaterOrEqual(t, time.Since(begin)+10*ms, 2*timeout)
			}
			_, err := server.Write([]byte("x"))
			require.ErrorIs(t, err, net.ErrClosed)
			require.NoError(t, client.Close())
		}
	}
}

// The farewells of very many wait for nobody: one after the other would take hours.
func TestFarewellsDoNotHoldUpTheWorkers(t *testing.T) {
	t.Parallel()
	const n = 500
	k := newNetKeeper(t, Config{Farewell: farewell, FarewellTimeout: timeout})
	for range n {
		k.Conn(stuck{})
	}
	begin := time.Now()
	require.Eventually(t, func() bool { return k.Stats().Closed[ReasonIdle] == n }, eternal, ms)
	require.Less(t, time.Since(begin), 20*timeout)
}

// stuck is a connection whose peer takes nothing.
type stuck struct{ net.Conn }

func (stuck) Write([]byte) (int, error)   { time.Sleep(timeout); return 0, net.ErrClosed }
func (stuck) Close() error                { return nil }
func (stuck) SetDeadline(time.Time) error { return nil }

// A large write to a slow peer gets on, so it is no silence; when it no longer does,
// it is.
func TestProgressOfALargeWriteIsLife(t *testing.T) {
	t.Parallel()
	if !socketsTell {
		t.Skip("only the kernel knows")
	}
	for name, cfg := range map[string]Config{
		"WriteIdle":         {Timeout: time.Minute, Tick: 10 * ms, WriteIdle: timeout},
		"ActivityReadWrite": {Timeout: timeout, Tick: 10 * ms, Activity: ActivityReadWrite},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeeper(t, cfg)
			client, server := connect(t, "tcp")
			require.NoError(t, client.(*net.TCPConn).SetReadBuffer(16<<10))
			conn := k.Conn(server)
			written := make(chan error, 1)
			go func() {
				_, err := io.Copy(conn, bytes.NewReader(make([]byte, 64<<20)))
				written <- err
			}()
			buf := make([]byte, 256<<10)
			for range 30 { // four timeouts
				_, err := io.ReadFull(client, buf)
				require.NoError(t, err)
				time.Sleep(beat)
			}
			require.Equal(t, 1, k.Len())
			stopped := time.Now()
			err := <-written
			require.ErrorIs(t, err, net.ErrClosed)
			require.GreaterOrEqual(t, time.Since(stopped)+beat, timeout)
		})
	}
}

func TestKernelWithPolicies(t *testing.T) {
	t.Parallel()
	if !socketsTell {
		t.Skip("only the kernel knows")
	}
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
		require.Less(t, time.Since(begin), 3*timeout)
		require.Eventually(t, func() bool { return k.Stats().Closed[ReasonFirstMessage] == 1 }, eternal, ms)
		_, err = speaks.Read(make([]byte, 1))
		require.Error(t, err)
		require.GreaterOrEqual(t, time.Since(begin), 4*timeout)
		require.Eventually(t, func() bool { return k.Stats().Closed[ReasonIdle] == 1 }, eternal, ms)
	})
	t.Run("DryRun", func(t *testing.T) {
		t.Parallel()
		k := newKeeper(t, Config{Timeout: timeout, Tick: 10 * ms, Activity: ActivityKernel, DryRun: true})
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
			Timeout: 4 * timeout, Tick: 10 * ms, Activity: ActivityKernel, ProbeAfter: timeout,
			Probe: func(conn any) error {
				_, err := conn.(net.Conn).Write([]byte("?"))
				return err
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
		require.GreaterOrEqual(t, k.Stats().Probes, uint64(4))
		require.NoError(t, busy.SetReadDeadline(time.Now().Add(ms)))
		_, err = busy.Read(make([]byte, 1))
		require.Error(t, err, "it was never asked")
	})
}

// A handler whose Read fails closes the connection, as every handler does. That must not
// take the last words away.
func TestTheHandlersCloseLeavesTheFarewell(t *testing.T) {
	for _, mode := range []CloseMode{CloseGraceful, CloseHalf} {
		t.Run(mode.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k := newKeeper(t, Config{
					Timeout:   time.Second,
					Activity:  ActivityManual,
					CloseMode: mode,
					Farewell:  func(any, Reason) []byte { return []byte("BYE") },
				})
				conn, peer := pipe(k)
				closed := make(chan error, 1)
				go func() {
					_, err := io.Copy(io.Discard, struct{ io.Reader }{conn})
					_ = conn.Close()
					closed <- err
				}()
				go func() { // a trickle, which is no life
					for _, err := peer.Write([]byte("x")); err == nil; _, err = peer.Write([]byte("x")) {
						sleep(t.Context(), 10*ms)
					}
				}()
				require.ErrorIs(t, <-closed, ErrIdleTimeout)
				time.Sleep(100 * ms) // it takes a while until the peer reads
				said, err := io.ReadAll(peer)
				require.NoError(t, err)
				require.Equal(t, "BYE", string(said))
				require.NoError(t, peer.Close())
			})
		})
	}
}
