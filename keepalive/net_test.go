package keepalive

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/certtest"
	"github.com/heartwheel-go/heartwheel/internal/logtest"
)

// These tests use real sockets, so real time. A timeout is two seconds in them, and a
// live peer says something eight times as often: it lives although this machine may have
// other work for more than a second.
const (
	timeout = 2 * time.Second
	beat    = timeout / 8
	eternal = time.Minute // how long a test waits for what must come
)

// forgiven is for how long a Keeper has not counted time, since this machine did not let it, and how late this test
// may be.
func forgiven(k *Keeper) time.Duration {
	stats := k.Stats().Wheel
	stalled := stats.Stalled + time.Duration(stats.Stalls)*(max(time.Second, 10*k.Config().Tick)+2*k.Config().Tick) // see wheel.Config.Stall
	before, _ := opened.Load(k)
	return stalled + time.Duration(overslept.Load()) - before.(time.Duration)
}

func newNetKeeper(t testing.TB, cfg Config) *Keeper {
	cfg.Timeout, cfg.Tick = timeout, 10*ms
	return newKeeper(t, cfg)
}

// networksHere are the networks with sockets on this system. Windows has Unix sockets, wine has none.
func networksHere() []string {
	if runtime.GOOS == "windows" {
		ln, err := net.Listen("unix", filepath.Join(os.TempDir(), fmt.Sprintf("keepalive-%d", os.Getpid())))
		if err != nil {
			return []string{"tcp"}
		}
		ln.Close() // removes the file, too
	}
	return []string{"tcp", "unix"}
}

// pairsHere are all pairs of these networks.
func pairsHere() (all [][2]string) {
	for _, a := range networksHere() {
		for _, b := range networksHere() {
			all = append(all, [2]string{a, b})
		}
	}
	return all
}

func listen(t testing.TB, network string) net.Listener {
	address := "127.0.0.1:0"
	if network != "tcp" {
		address = filepath.Join(t.TempDir(), "s")
	}
	ln, err := net.Listen(network, address)
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	return ln
}

// connect returns two ends of a connection over the network, neither guarded.
func connect(t testing.TB, network string) (a, b net.Conn) {
	ln := listen(t, network)
	a, err := net.Dial(network, ln.Addr().String())
	require.NoError(t, err)
	b, err = ln.Accept()
	require.NoError(t, err)
	t.Cleanup(func() { a.Close(); b.Close() })
	return a, b
}

// trickle writes a byte now and then, count times, and returns when it began to write the last.
func trickle(w io.Writer, count int) (last time.Time) {
	last, _ = trickleSteadily(w, count)
	return last
}

// trickleSteadily is trickle. It reports false, and writes no more, if this machine let it pause for too long.
func trickleSteadily(w io.Writer, count int) (last time.Time, steady bool) {
	last = time.Now()
	for range count {
		time.Sleep(beat)
		before := last
		last = time.Now()
		_, err := w.Write([]byte("x"))
		if time.Since(before) > timeout/2 {
			return last, false
		}
		if err != nil {
			break
		}
	}
	return last, true
}

func TestSilentSocketsAreClosedOnTimeAndNeverEarly(t *testing.T) {
	t.Parallel()
	for _, activity := range activitiesHere() {
		for _, network := range networksHere() {
			t.Run(fmt.Sprintf("activity=%v/network=%s", activity, network), func(t *testing.T) {
				t.Parallel()
				testSilentSockets(t, activity, network)
			})
		}
	}
}

func testSilentSockets(t *testing.T, activity Activity, network string) {
	k := newNetKeeper(t, Config{Activity: activity})
	ln := k.Listener(listen(t, network))
	for range 3 {
		client, err := net.Dial(network, ln.Addr().String())
		require.NoError(t, err)
		conn, err := ln.Accept()
		require.NoError(t, err)
		last := time.Now()
		_, err = client.Write([]byte("x"))
		require.NoError(t, err)
		n, err := conn.Read(make([]byte, 8))
		require.NoError(t, err)
		require.Equal(t, 1, n)
		Touch(conn) // for ActivityManual
		_, err = conn.Read(make([]byte, 8))
		after := time.Since(last)
		requireIdleTimeout(t, err)
		require.GreaterOrEqual(t, after, timeout)
		_, err = client.Read(make([]byte, 8))
		require.ErrorIs(t, err, io.EOF)
		client.Close()
	}
}

func TestUnreadBytesAreNotSilence(t *testing.T) {
	t.Parallel()
	for _, network := range networksHere() {
		for _, activity := range activitiesHere() {
			for done := false; !done; {
				done = testUnreadBytes(t, activity, network)
			}
		}
	}
}

// testUnreadBytes reports whether this machine was quick enough for the test: a late beat finds
// its connection closed.
func testUnreadBytes(t *testing.T, activity Activity, network string) bool {
	k := newNetKeeper(t, Config{Activity: activity})
	client, server := connect(t, network)
	conn := k.Conn(server)
	start := time.Now()
	time.Sleep(timeout / 2)
	_, err := client.Write([]byte("beat"))
	if time.Since(start) > timeout*3/4 {
		return false
	}
	require.NoError(t, err)
	time.Sleep(timeout * 3 / 4) // beyond the deadline, and nobody has read it
	require.Eventually(t, func() bool { return k.Stats().Spared > 0 }, eternal, ms)
	n, err := conn.Read(make([]byte, 10))
	require.NoError(t, err, "%s, %v", network, activity)
	require.Equal(t, 4, n)
	require.True(t, Touch(conn))
	return true
}

func TestProgramThatHangsKillsNobodyAndKeepsNobody(t *testing.T) {
	t.Parallel()
	for _, network := range networksHere() {
		var log logtest.Log
		k := newNetKeeper(t, Config{Logger: log.Logger(slog.LevelWarn)})
		client, server := connect(t, network)
		conn := k.Conn(server)
		var last time.Time
		for range 40 { // five timeouts: the peer is full of life, and nobody listens
			time.Sleep(beat)
			last = time.Now()
			_, err := client.Write([]byte("x"))
			require.NoError(t, err)
		}
		require.Equal(t, 1, k.Len())
		require.Positive(t, k.Stats().Slow)
		require.Contains(t, log.String(), "bytes wait that this program does not read")
		require.Eventually(t, func() bool { return k.Len() == 0 }, eternal, ms)
		require.GreaterOrEqual(t, time.Since(last), timeout)
		require.GreaterOrEqual(t, k.Stats().Spared, uint64(maxRounds))
		require.False(t, Touch(conn))
	}
}

// A proxy between guarded connections, in all combinations: bytes moved by the kernel are life,
// in both directions, and silence is still silence.
func TestCopiedBytesAreLife(t *testing.T) {
	t.Parallel()
	eachActivity(t, readingActivities(), testCopiedBytes)
}

func testCopiedBytes(t *testing.T, activity Activity) {
	k := newNetKeeper(t, Config{Activity: activity})
	guard := func(c net.Conn) net.Conn { return k.Conn(c) }
	bare := func(c net.Conn) net.Conn { return c }
	limited := func(r io.Reader) io.Reader { return &io.LimitedReader{R: r, N: 1 << 40} }
	full := func(r io.Reader) io.Reader { return r }
	var wg sync.WaitGroup
	for _, network := range pairsHere() {
		for name, wrap := range map[string][2]func(net.Conn) net.Conn{
			"source": {guard, bare}, "destination": {bare, guard}, "both": {guard, guard},
		} {
			for how, reader := range map[string]func(io.Reader) io.Reader{"whole": full, "limited": limited} {
				client, in := connect(t, network[0])
				out, backend := connect(t, network[1])
				wg.Go(func() {
					src, dst := wrap[0](in), wrap[1](out)
					name := network[0] + " to " + network[1] + ", " + name + ", " + how
					start := time.Now()
					done := make(chan error, 1)
					go func() {
						_, err := io.Copy(dst, reader(src))
						done <- err
					}()
					sent := make(chan time.Time, 1)
					go func() {
						if last, steady := trickleSteadily(client, 20); steady { // 2.5 timeouts
							sent <- last
						} else {
							client.Close()
							out.Close()
						}
						close(sent)
					}()
					buf := make([]byte, 20)
					_, err := io.ReadFull(backend, buf)
					last, steady := <-sent
					if !steady {
						t.Logf("%s: this machine is too busy to tell", name)
						return
					}
					if err != nil {
						t.Errorf("%s: after %v: %v", name, time.Since(start), err)
						return
					}
					if Of(src) == nil {
						client.Close() // nobody watches the source
						<-done
						return
					}
					if err := <-done; !errors.Is(err, ErrIdleTimeout) {
						t.Errorf("%s: %v", name, err)
					}
					if silent := time.Since(last); silent < timeout {
						t.Errorf("%s: closed after %v of silence", name, silent)
					}
				})
			}
		}
	}
	wg.Wait()
}

func TestMethodsOfTheConnectionInside(t *testing.T) {
	k := newNetKeeper(t, Config{})
	tcp, _ := connect(t, "tcp")
	pipeEnd, _ := net.Pipe()
	udp, err := net.Dial("udp", "127.0.0.1:9")
	require.NoError(t, err)
	type methods struct {
		conn          net.Conn
		halves, socks bool
	}
	all := map[string]methods{
		"udp":  {udp, false, true},
		"pipe": {pipeEnd, false, false},
		"tls":  {tls.Client(tcp, &tls.Config{MinVersion: tls.VersionTLS12}), true, false},
	}
	for _, network := range networksHere() {
		c, _ := connect(t, network)
		all[network] = methods{c, true, true}
	}
	for name, c := range all {
		t.Run(name, func(t *testing.T) {
			conn := k.Conn(c.conn)
			defer conn.Close()
			_, halves := conn.(interface {
				CloseWrite() error
				CloseRead() error
			})
			_, socks := conn.(syscall.Conn)
			require.Equal(t, c.halves, halves)
			require.Equal(t, c.socks, socks)
			require.Equal(t, c.conn.LocalAddr(), conn.LocalAddr())
			require.Equal(t, c.conn.RemoteAddr(), conn.RemoteAddr())
			require.Equal(t, c.conn, conn.(interface{ NetConn() net.Conn }).NetConn())
			require.Implements(t, (*io.ReaderFrom)(nil), conn)
			require.Implements(t, (*io.WriterTo)(nil), conn)
		})
	}
	overTLS := k.Conn(tls.Client(tcp, &tls.Config{MinVersion: tls.VersionTLS12}))
	require.ErrorIs(t, overTLS.(interface{ CloseRead() error }).CloseRead(), errors.ErrUnsupported)
}

func TestHalfClosedConnection(t *testing.T) {
	t.Parallel()
	eachActivity(t, activitiesHere(), testHalfClosed)
}

func testHalfClosed(t *testing.T, activity Activity) {
	k := newNetKeeper(t, Config{Activity: activity})
	client, server := connect(t, "tcp")
	conn := k.Conn(server)
	require.NoError(t, client.(*net.TCPConn).CloseWrite())
	_, err := conn.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	_, err = conn.Write([]byte("still writing"))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return k.Stats().Closed[ReasonIdle] == 1 }, eternal, ms, "a half-closed peer is silent")
	_, err = conn.Write([]byte("x"))
	requireIdleTimeout(t, err)

	a, b := connect(t, "tcp")
	half := k.Conn(b)
	require.NoError(t, half.(interface{ CloseWrite() error }).CloseWrite())
	_, err = a.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	_, err = a.Write([]byte("y"))
	require.NoError(t, err)
	n, err := half.Read(make([]byte, 1))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, half.(interface{ CloseRead() error }).CloseRead())
}

// serve runs an HTTP server on a guarded listener.
func serve(t *testing.T, k *Keeper, handler http.Handler, config *tls.Config) (addr string) {
	ln := k.Listener(listen(t, "tcp"))
	server := &http.Server{Handler: handler, TLSConfig: config, ReadHeaderTimeout: eternal}
	done := make(chan error, 1)
	go func() {
		if config != nil {
			done <- server.ServeTLS(ln, "", "")
		} else {
			done <- server.Serve(ln)
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, server.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return ln.Addr().String()
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	var c closings
	k := newNetKeeper(t, Config{OnClose: c.add})
	cert, roots := certtest.New(t)
	for name, config := range map[string]*tls.Config{
		"http/1.1": nil,
		"h2":       {Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12},
	} {
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if (r.TLS != nil) != (config != nil) {
				t.Errorf("%s: Request.TLS is %v", name, r.TLS)
			}
			fmt.Fprintf(w, "%s", r.Proto)
		})
		addr := serve(t, k, handler, config)
		transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
		client := &http.Client{Transport: transport, Timeout: eternal}
		url, want := "http://"+addr, "HTTP/1.1"
		if config != nil {
			url, want = "https://"+addr, "HTTP/2.0"
		}
		get := func() (late bool) {
			last := time.Now()
			for range 20 { // 2.5 timeouts, on one connection
				resp, err := client.Get(url)
				if time.Since(last) > timeout/2 {
					if err == nil {
						resp.Body.Close()
					}
					return true
				}
				last = time.Now()
				require.NoError(t, err)
				body, err := io.ReadAll(resp.Body)
				require.NoError(t, err)
				resp.Body.Close()
				require.Equal(t, want, string(body))
				require.Equal(t, 1, k.Len(), name)
				time.Sleep(beat)
			}
			return false
		}
		for get() { // this machine was too busy
			transport.CloseIdleConnections()
			require.Eventually(t, func() bool { return k.Len() == 0 }, eternal, ms)
		}
		require.Eventually(t, func() bool { return k.Len() == 0 }, eternal, ms)
		require.Eventually(t, func() bool { // the client finds out and dials again
			resp, err := client.Get(url)
			if err == nil {
				resp.Body.Close()
			}
			return err == nil
		}, eternal, ms)
		transport.CloseIdleConnections()
		require.Eventually(t, func() bool { return k.Len() == 0 }, eternal, ms)
	}
	// On a busy machine a client is silent for too long now and then, and dials once more.
	require.Eventually(t, func() bool { return len(c.list()) == int(k.Stats().Opened) }, eternal, ms)
	require.GreaterOrEqual(t, len(c.list()), 4)
	told := map[any]bool{}
	for _, one := range c.list() {
		require.False(t, told[one.conn], "it has been told already")
		told[one.conn] = true
	}
}

func TestHTTPHijack(t *testing.T) {
	t.Parallel()
	k := newNetKeeper(t, Config{})
	result := make(chan error, 1)
	addr := serve(t, k, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		start := time.Now()
		conn, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			result <- err
			return
		}
		defer conn.Close()
		if took := time.Since(start); took > timeout/2 {
			t.Errorf("Hijack took %v", took)
		}
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\n\r\n")
		_ = rw.Flush()
		_, err = io.Copy(rw, rw) // echo
		_ = rw.Flush()
		result <- err
	}), nil)
	client, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer client.Close()
	_, err = client.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	require.NoError(t, err)
	r := bufio.NewReader(client)
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(line, "HTTP/1.1 101"), line)
	last := trickle(client, 20)
	requireIdleTimeout(t, <-result)
	require.GreaterOrEqual(t, time.Since(last), timeout)
}

// A handler takes longer than the timeout and says so. Its request is not cancelled.
func TestHTTPSlowHandler(t *testing.T) {
	t.Parallel()
	k := newNetKeeper(t, Config{Activity: ActivityManual})
	addr := serve(t, k, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for range 20 {
			time.Sleep(beat)
			for g := range k.Guards() {
				g.Touch()
			}
			if r.Context().Err() != nil {
				t.Error("cancelled")
			}
		}
		fmt.Fprint(w, "done")
	}), nil)
	resp, err := http.Get("http://" + addr)
	require.NoError(t, err)
	body, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	resp.Body.Close()
	require.Equal(t, "done", string(body))
	http.DefaultClient.CloseIdleConnections()
}

// Connections come and go while stale references to earlier ones are touched and closed.
// Descriptors are used again, so a harmful reference would hit a stranger.
func TestStaleReferencesHarmNobody(t *testing.T) {
	t.Parallel()
	k := newNetKeeper(t, Config{})
	ln := k.Listener(listen(t, "tcp"))
	var mu sync.Mutex
	var stale []net.Conn
	var echo sync.WaitGroup
	echo.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			echo.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
				mu.Lock()
				stale = append(stale, conn)
				mu.Unlock()
			})
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	var sessions, pokes atomic.Int64
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for ctx.Err() == nil {
				mu.Lock()
				old := stale
				if len(old) > 200 {
					old = old[len(old)-200:]
				}
				mu.Unlock()
				for _, c := range old {
					pokes.Add(1)
					if Of(c).Touch() && Touch(c) {
						continue // its Close has not come yet
					}
					_, _ = c.Write([]byte("POISON"))
					_ = c.Close()
				}
			}
		})
	}
	for id := range 4 {
		wg.Go(func() {
			for n := 0; ctx.Err() == nil || sessions.Load() <= 20; n++ {
				c, err := net.Dial("tcp", ln.Addr().String())
				if err != nil {
					t.Error(err)
					return
				}
				word := fmt.Sprintf("client %d session %d", id, n)
				_, _ = c.Write([]byte(word))
				buf := make([]byte, len(word))
				if _, err := io.ReadFull(c, buf); err != nil || string(buf) != word {
					t.Errorf("%q: %q, %v", word, buf, err)
				}
				if n%2 == 0 {
					_ = c.(*net.TCPConn).SetLinger(0)
				}
				c.Close()
				sessions.Add(1)
			}
		})
	}
	wg.Wait()
	ln.Close()
	echo.Wait()
	require.Zero(t, k.Len())
	require.Greater(t, sessions.Load(), int64(20))
	require.Zero(t, k.Stats().Closed[ReasonIdle])
	t.Logf("%d sessions, %d pokes at closed ones", sessions.Load(), pokes.Load())
}

// Closing from both sides at the same time: OnClose once for each, and the
// number of connections comes back to none.
func TestCloseRacesExpiry(t *testing.T) {
	t.Parallel()
	var told atomic.Int64
	k := newKeeper(t, Config{Timeout: 20 * ms, Tick: ms, OnClose: func(any, Reason) { told.Add(1) }})
	const n = 500
	var wg sync.WaitGroup
	for i := range n {
		conn, peer := pipe(k)
		wg.Go(func() {
			time.Sleep(20*ms + time.Duration(i%30)*100*time.Microsecond)
			if err := conn.Close(); err != nil && !errors.Is(err, io.ErrClosedPipe) {
				t.Error(err)
			}
			peer.Close()
		})
	}
	wg.Wait()
	require.Eventually(t, func() bool { return told.Load() == n }, eternal, ms)
	require.Zero(t, k.Len())
	s := k.Stats()
	require.EqualValues(t, n, s.Closed[ReasonIdle]+s.Closed[ReasonLocal]+s.Closed[ReasonPeer])
}
