package keepalive

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/heartwheel-go/heartwheel/internal/certtest"
	"github.com/heartwheel-go/heartwheel/internal/proctest"
)

// The socket is read past the connection, by its descriptor.
func TestBytesReadPastTheConnectionAreLife(t *testing.T) {
	t.Parallel()
	eachActivity(t, readingActivities(), testBytesReadPast)
}

func testBytesReadPast(t *testing.T, activity Activity) {
	k := newNetKeeper(t, Config{Activity: activity})
	client, server := connect(t, "tcp")
	conn := k.Conn(server)
	raw, err := conn.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	go trickle(client, 24) // three timeouts
	got := 0
	for got < 24 {
		require.NoError(t, raw.Read(func(fd uintptr) bool {
			n, err := syscall.Read(int(fd), make([]byte, 8))
			if err == nil {
				got += n
			}
			return !errors.Is(err, syscall.EAGAIN)
		}))
	}
	require.True(t, Touch(conn))
}

// The peer's machine vanishes, and the kernel sends our bytes again and again: they are no
// life. A filter on its socket drops everything.
func TestBytesThatAreSentAgainAreNoLife(t *testing.T) {
	t.Parallel()
	// Long enough for the kernel to send again, and to say so: its first attempt
	// after a fifth of a second or more is not counted as one.
	const timeout = 2 * time.Second
	for _, activity := range readingActivities() {
		k := newKeeper(t, Config{Timeout: timeout, Activity: activity})
		client, server := connect(t, "tcp")
		proctest.Vanish(t, client.(*net.TCPConn))
		start := time.Now()
		conn := k.Conn(server)
		_, err := conn.Write([]byte("are you there?"))
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 1))
		requireIdleTimeout(t, err)
		require.GreaterOrEqual(t, time.Since(start), timeout)
		// Within a jiffy of the timeout it may have to be asked once more.
		require.LessOrEqual(t, k.Stats().Spared, uint64(1), "%v", activity)
		// The fourth time comes after three seconds, and would give it two more.
		require.Less(t, time.Since(start), 2*timeout+forgiven(k), "%v", activity)
	}
}

// The kernel itself gives a vanished peer up after TCP_USER_TIMEOUT, or TCP keepalive. Its error is a
// timeout, and no deadline of the program's.
func TestConnectionGivenUpByTheKernelIsThePeersEnd(t *testing.T) {
	t.Parallel()
	var c closings
	k := newKeeper(t, Config{OnClose: c.add})
	peer, inner := connect(t, "tcp")
	conn := k.Conn(inner)
	require.NoError(t, control(inner, func(fd uintptr) {
		require.NoError(t, unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, 100))
	}))
	vanish(t, peer, conn)
	_, err := conn.Write([]byte("are you there?"))
	require.NoError(t, err)
	_, err = conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ETIMEDOUT)
	require.NoError(t, conn.Close())
	require.Equal(t, []closing{{conn, ReasonPeer}}, c.list())
}

// Splice and sendfile must still happen: the bytes must not pass through Read
// and Write of ours.
func TestTransfersBypassReadAndWrite(t *testing.T) {
	for _, activity := range readingActivities() {
		testBypass(t, activity)
	}
}

func testBypass(t *testing.T, activity Activity) {
	k := newNetKeeper(t, Config{Activity: activity})
	const size = 4 << 20
	client, in := connect(t, "tcp")
	out, backend := connect(t, "tcp")
	src, dst := k.Conn(in), k.Conn(out)
	before := bytesRead(t)
	go func() {
		_, _ = client.Write(make([]byte, size))
		client.(*net.TCPConn).CloseWrite()
	}()
	go func() {
		_, _ = io.Copy(dst, src)
		dst.(interface{ CloseWrite() error }).CloseWrite()
	}()
	n, err := io.Copy(io.Discard, backend)
	require.NoError(t, err)
	require.EqualValues(t, size, n)
	read := bytesRead(t) - before
	require.Less(t, read, int64(size*3/2), "only the backend has read them")

	// And a file to a guarded connection, by sendfile: write is not called.
	file, err := os.Create(filepath.Join(t.TempDir(), "f"))
	require.NoError(t, err)
	defer file.Close()
	require.NoError(t, file.Truncate(size))
	browser, in := connect(t, "tcp")
	download := k.Conn(in)
	go func() {
		_, _ = io.Copy(download, file)
		download.Close()
	}()
	n, err = io.Copy(io.Discard, browser)
	require.NoError(t, err)
	require.EqualValues(t, size, n)
}

// Only we send: a long download must not end because its client has nothing to
// say, and when it has ended the client has a timeout for its next request.
func TestDownload(t *testing.T) {
	t.Parallel()
	for _, activity := range readingActivities() {
		t.Run("activity="+activity.String(), func(t *testing.T) {
			t.Parallel()
			testDownload(t, activity)
		})
	}
}

func testDownload(t *testing.T, activity Activity) {
	for name, from := range map[string]func(t *testing.T) io.Reader{
		"sendfile": func(t *testing.T) io.Reader {
			f, err := os.Create(filepath.Join(t.TempDir(), "f"))
			require.NoError(t, err)
			t.Cleanup(func() { f.Close() })
			require.NoError(t, f.Truncate(512<<10))
			return f
		},
		"splice": func(t *testing.T) io.Reader {
			backend, upstream := connect(t, "tcp")
			go func() {
				_, _ = backend.Write(make([]byte, 512<<10))
				_ = backend.(*net.TCPConn).CloseWrite()
			}()
			return upstream
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newNetKeeper(t, Config{Activity: activity})
			client, server := connect(t, "tcp")
			require.NoError(t, server.(*net.TCPConn).SetWriteBuffer(16<<10))
			require.NoError(t, client.(*net.TCPConn).SetReadBuffer(16<<10))
			conn := k.Conn(server)
			// The first look finds this byte nearly a timeout old, and the second
			// comes before anything has moved since.
			time.Sleep(15 * ms)
			_, err := client.Write([]byte("x"))
			require.NoError(t, err)
			_, err = conn.Read(make([]byte, 1))
			require.NoError(t, err)
			ended := make(chan time.Time, 1)
			src := from(t)
			go func() {
				n, err := io.Copy(conn, src)
				if n != 512<<10 || err != nil {
					t.Errorf("%d bytes, %v", n, err)
				}
				ended <- time.Now()
			}()
			start := time.Now()
			for left := 512 << 10; left > 0; {
				n, err := client.Read(make([]byte, 32<<10))
				require.NoError(t, err, "after %v", time.Since(start))
				left -= n
				time.Sleep(2 * beat)
			}
			require.Greater(t, time.Since(start), 3*timeout)
			last := <-ended
			require.Eventually(t, func() bool { return k.Len() == 0 }, eternal, ms)
			require.GreaterOrEqual(t, time.Since(last), timeout)
			require.Less(t, time.Since(last), 3*timeout+forgiven(k))
		})
	}
}

// bytesRead returns how many bytes this process has read; what it spliced is not
// among them.
func bytesRead(t *testing.T) int64 {
	b, err := os.ReadFile("/proc/self/io")
	require.NoError(t, err)
	var rchar int64
	_, err = fmt.Sscanf(string(b), "rchar: %d", &rchar)
	require.NoError(t, err)
	return rchar
}

// What a reset looks like is another matter on other systems.
func TestCloseResetResets(t *testing.T) {
	t.Parallel()
	k := newNetKeeper(t, Config{Closing: Closing{Mode: CloseReset}})
	client, server := connect(t, "tcp")
	k.Conn(server)
	_, err := client.Read(make([]byte, 1))
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

// A reset drops what the peer has not taken, through all layers above the socket.
func TestCloseResetBelowTLS(t *testing.T) {
	t.Parallel()
	certificate, _ := certtest.New(t)
	k := newNetKeeper(t, Config{Closing: Closing{Mode: CloseReset}})
	client, server := connect(t, "tcp")
	peer := tls.Client(client, &tls.Config{InsecureSkipVerify: true})
	conn := k.Conn(tls.Server(server, &tls.Config{Certificates: []tls.Certificate{certificate}}))
	go func() { _, _ = conn.Read(make([]byte, 1)) }() // the handshake, and no more
	require.NoError(t, peer.Handshake())
	_, err := io.ReadAll(client)
	require.ErrorIs(t, err, syscall.ECONNRESET)
}

// A large write to a slow peer gets on, so it is no silence; when it no longer does,
// it is.
func TestProgressOfALargeWriteIsLife(t *testing.T) {
	t.Parallel()
	for name, cfg := range map[string]Config{
		"WriteIdle":         {Timeout: time.Minute, Tick: 10 * ms, WriteIdle: timeout},
		"ActivityReadWrite": {Timeout: timeout, Tick: 10 * ms, Activity: ActivityReadWrite},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := newKeeper(t, cfg)
			client, server := connect(t, "tcp")
			require.NoError(t, client.(*net.TCPConn).SetReadBuffer(16<<10))
			large := bytes.NewReader(make([]byte, 16<<20)) // the race detector takes its time for this
			conn := k.Conn(server)
			written := make(chan error, 1)
			go func() {
				_, err := io.Copy(conn, large)
				written <- err
			}()
			buf := make([]byte, 256<<10)
			var last time.Time
			for range 30 { // four timeouts
				last = time.Now()
				_, err := io.ReadFull(client, buf)
				require.NoError(t, err)
				time.Sleep(beat)
			}
			require.Equal(t, 1, k.Len())
			err := <-written
			require.ErrorIs(t, err, net.ErrClosed)
			require.GreaterOrEqual(t, time.Since(last), timeout)
		})
	}
}

// Bytes that nobody has read are something to read, for ReadIdle, too.
func TestUnreadBytesAreNoReadIdle(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, Config{Timeout: eternal, Tick: 10 * ms, ReadIdle: timeout})
	client, server := connect(t, "tcp")
	conn := k.Conn(server)
	_, err := client.Write([]byte("beat"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return k.Stats().Spared > 0 }, eternal, ms)
	n, err := conn.Read(make([]byte, 10))
	require.NoError(t, err)
	require.Equal(t, 4, n)
	_, err = conn.Read(make([]byte, 10))
	require.ErrorIs(t, err, ReasonReadIdle)
}
