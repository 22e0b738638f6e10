package keepalive

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
)

// These tests are about ActivityKernel, and about what the kernel says of a socket.

func newKernelKeeper(t testing.TB, cfg Config) *Keeper {
	cfg.Activity = ActivityKernel
	return newNetKeeper(t, cfg)
}

// requireSilent requires the end of the connection for a silence since last, within the bounds
// and a busy machine's delay.
func requireSilent(t testing.TB, k *Keeper, last time.Time) {
	t.Helper()
	require.Eventually(t, func() bool { return k.Stats().Closed[ReasonIdle] > 0 }, eternal, ms)
	require.GreaterOrEqual(t, time.Since(last), timeout)
	require.Less(t, time.Since(last), 2*timeout+forgiven(k))
}

func TestKernelKnowsWithoutATouch(t *testing.T) {
	t.Parallel()
	for _, reads := range []bool{true, false} { // arrived bytes are life
		t.Run(fmt.Sprintf("reads=%v", reads), func(t *testing.T) {
			t.Parallel()
			k := newKernelKeeper(t, Config{})
			client, server := connect(t, "tcp")
			conn := k.Conn(server)
			for range 40 { // five timeouts
				time.Sleep(beat)
				_, err := client.Write([]byte("x"))
				require.NoError(t, err)
				if reads {
					_, err = conn.Read(make([]byte, 1))
					require.NoError(t, err)
				}
			}
			last := time.Now()
			require.Equal(t, 1, k.Len())
			require.Positive(t, k.Stats().Spared)
			if reads {
				requireSilent(t, k, last.Add(-beat))
				return
			}
			require.Eventually(t, func() bool { return k.Len() == 0 }, eternal, ms, "nobody ever reads")
		})
	}
}

func TestKernelReadsAndWritesTouchNothing(t *testing.T) {
	t.Parallel()
	k := newKeeper(t, Config{Timeout: time.Minute, Tick: ms, Activity: ActivityKernel})
	client, server := connect(t, "tcp")
	conn := k.Conn(server)
	g := Of(conn)
	g.timer.Look()
	for range 5 {
		time.Sleep(5 * ms)
		_, err := client.Write([]byte("x"))
		require.NoError(t, err)
		_, err = conn.Read(make([]byte, 1))
		require.NoError(t, err)
		_, err = conn.Write([]byte("y"))
		require.NoError(t, err)
	}
	require.NoError(t, client.(*net.TCPConn).CloseWrite())
	_, err := io.Copy(struct{ io.Writer }{io.Discard}, conn)
	require.NoError(t, err)
	require.True(t, g.quiet(), "nobody has touched it")
	require.True(t, Touch(conn), "by hand")
	require.False(t, g.quiet())
}

// Many connections, each silent from a moment of its own on.
func TestKernelIsNeverEarly(t *testing.T) {
	for _, tick := range []time.Duration{ms, 2 * ms, 5 * ms, 100 * ms} {
		t.Run(fmt.Sprintf("tick=%v", tick), func(t *testing.T) {
			// Longer ones if this machine is too busy for beats so close together.
			timeout := max(50*ms, 3*tick)
			for !testNeverEarly(t, tick, timeout) {
				timeout *= 2
				require.Less(t, timeout, eternal)
			}
		})
	}
}

// testNeverEarly reports whether this machine was quick enough for the test: most of the
// connections have to be alive until they fall silent.
func testNeverEarly(t *testing.T, tick, timeout time.Duration) bool {
	const conns = 250
	k := newKeeper(t, Config{Timeout: timeout, Tick: tick, Activity: ActivityKernel})
	var late [conns]time.Duration
	var crossed atomic.Int64
	var all sync.WaitGroup
	for i := range conns {
		client, server := connect(t, "tcp")
		begin := time.Now()
		conn := k.Conn(server)
		all.Go(func() {
			last, silence, sent := begin, time.Duration(0), int64(0)
			var sender sync.WaitGroup
			sender.Go(func() {
				for end := begin.Add(6*timeout + rand.N(timeout)); time.Now().Before(end); {
					time.Sleep(rand.N(timeout / 3))
					before := time.Now()
					_, err := client.Write([]byte("x"))
					silence = max(silence, time.Since(last)) // at most, before this byte
					if err != nil {
						return
					}
					last, sent = before, sent+1
				}
			})
			read, err := io.Copy(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn})
			closed := time.Now()
			if !errors.Is(err, ErrIdleTimeout) {
				t.Errorf("closed with %v", err)
			}
			sender.Wait()
			if silence >= timeout { // a busy machine: they may have met half-way
				crossed.Add(1)
				return
			}
			if sent != read {
				t.Errorf("a live connection was closed: %d bytes sent, none for at most %v, and %d read", sent, silence, read)
			}
			late[i] = closed.Sub(last) - timeout
		})
	}
	all.Wait()
	sum := time.Duration(0)
	for i, l := range late {
		require.GreaterOrEqual(t, l, time.Duration(0), "connection %d", i)
		sum += l
	}
	t.Logf("late: at most %v, %v in the mean; %d crossed", slices.Max(late[:]), sum/conns, crossed.Load())
	require.Less(t, slices.Max(late[:]), 2*tick+2*tooOld+behind+eternal/10+forgiven(k), "and what a busy machine takes")
	return crossed.Load() < conns*9/10
}

func TestJiffies(t *testing.T) {
	require.GreaterOrEqual(t, jiffy(), 900*time.Microsecond)
	require.LessOrEqual(t, jiffy(), 10*ms)
	for _, hz := range []int64{100, 128, 250, 256, 300, 1000, 1024} {
		jiffy := time.Duration(1e9 / hz)
		least := time.Hour
		for n := range int64(10_000) {
			// What happened at the end of a jiffy is asked for at the beginning of
			// the n-th one after it; rounded up as the kernel does.
			said := time.Duration((n*1000+hz-1)/hz) * ms
			is := time.Duration(max(0, (n-1)*1e9/hz))
			require.LessOrEqual(t, max(0, said-roundedUp(jiffy)), is+10, "%d jiffies at %d Hz", n, hz)
			least = min(least, is+jiffy-said+roundedUp(jiffy))
		}
		require.Less(t, least, jiffy+ms+10, "no more than that")
	}
	require.Zero(t, atLeast(0))
	require.Equal(t, time.Hour-tooOld, atLeast(3600_000))
}

// What the peer's kernel does by itself is no life.
func TestKernelOnlyCountsData(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(t *testing.T, peer, conn *net.TCPConn){
		"TCP keepalive": func(t *testing.T, peer, conn *net.TCPConn) {
			for _, c := range []*net.TCPConn{peer, conn} {
				require.NoError(t, c.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second}))
			}
		},
		"acknowledgements": func(_ *testing.T, _, conn *net.TCPConn) {
			go trickle(conn, 80)
		},
		"half-closed": func(t *testing.T, peer, conn *net.TCPConn) {
			require.NoError(t, peer.CloseWrite())
			go trickle(conn, 80)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const timeout = 2500 * ms // of several probes
			k := newKeeper(t, Config{Timeout: timeout, Tick: 10 * ms, Activity: ActivityKernel})
			peer, server := connect(t, "tcp")
			do(t, peer.(*net.TCPConn), server.(*net.TCPConn))
			start := time.Now()
			conn := k.Conn(server)
			go io.Copy(io.Discard, struct{ io.Reader }{peer})
			require.Eventually(t, func() bool { return k.Len() == 0 }, eternal, ms)
			require.GreaterOrEqual(t, time.Since(start), timeout)
			require.Less(t, time.Since(start), 4*timeout, "sooner than the trickle ends")
			require.False(t, Touch(conn))
		})
	}
}

func TestKernelAfterOurCloseWriteThePeerStillLives(t *testing.T) {
	t.Parallel()
	k := newKernelKeeper(t, Config{})
	client, server := connect(t, "tcp")
	conn := k.Conn(server)
	require.NoError(t, conn.(interface{ CloseWrite() error }).CloseWrite())
	start := time.Now()
	go trickle(client, 24)
	n, err := io.Copy(io.Discard, conn)
	requireIdleTimeout(t, err)
	require.EqualValues(t, 24, n)
	require.GreaterOrEqual(t, time.Since(start), 24*beat+timeout-beat)
}

// A little waits unread, and nothing more comes.
func TestKernelProgramThatHangs(t *testing.T) {
	t.Parallel()
	k := newKernelKeeper(t, Config{})
	client, server := connect(t, "tcp")
	start := time.Now()
	k.Conn(server)
	_, err := client.Write(make([]byte, 4<<10))
	require.NoError(t, err)
	require.Eventually(t, func() bool { return k.Len() == 0 }, eternal, ms)
	require.GreaterOrEqual(t, time.Since(start), timeout)
	require.Less(t, time.Since(start), 6*timeout+forgiven(k))
	require.GreaterOrEqual(t, k.Stats().Spared, uint64(maxRounds))
}

// The window is full, and the program takes a little now and then: the peer waits for it. After
// the last read, the peer has a timeout.
func TestKernelSlowProgramKillsNobody(t *testing.T) {
	t.Parallel()
	k := newKernelKeeper(t, Config{})
	client, server := connect(t, "tcp")
	require.NoError(t, server.(*net.TCPConn).SetReadBuffer(256<<10))
	conn := k.Conn(server)
	go client.Write(make([]byte, 64<<10)) // and then it waits for an answer
	for range 16 {
		time.Sleep(timeout / 4)
		_, err := io.ReadFull(conn, make([]byte, 4<<10))
		require.NoError(t, err)
	}
	last := time.Now()
	require.Eventually(t, func() bool { return k.Len() == 0 }, eternal, ms)
	require.GreaterOrEqual(t, time.Since(last), timeout/2)

	for !slowOnce(t) {
		continue
	}
}

// slowOnce has a program be slow once, and reports whether this machine let it read in time. That kills nobody either.
func slowOnce(t *testing.T) (quick bool) {
	k := newKeeper(t, Config{Timeout: timeout, Tick: timeout / 4, Activity: ActivityKernel})
	client, server := connect(t, "tcp")
	begin := time.Now()
	conn := k.Conn(server)
	_, err := client.Write([]byte("a request"))
	require.NoError(t, err)
	time.Sleep(2 * timeout) // in the second of its rounds
	_, err = conn.Read(make([]byte, 10))
	last := time.Now()
	if last.Sub(begin) > 2*timeout+timeout/4 {
		return false
	}
	require.NoError(t, err)
	require.Eventually(t, func() bool { return k.Len() == 0 }, eternal, ms)
	require.GreaterOrEqual(t, time.Since(last), timeout)
	return true
}

func TestKernelTouchByHandAndOnIdle(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	var client net.Conn
	k := newKernelKeeper(t, Config{OnIdle: func(conn any, _ Reason) Verdict {
		switch asked.Add(1) {
		case 1:
			return Extend(timeout)
		case 2: // the peer speaks while we think
			_, _ = client.Write([]byte("x"))
			for e := nothing; e.taken == 0; _ = control(conn.(net.Conn), func(fd uintptr) { e = ask(fd) }) {
				time.Sleep(ms)
			}
		}
		return Close
	}})
	client, server := connect(t, "tcp")
	conn := k.Conn(server)
	go io.Copy(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn})
	start := time.Now()
	for range 24 {
		time.Sleep(beat)
		require.True(t, Touch(conn))
	}
	require.Zero(t, asked.Load())
	require.Eventually(t, func() bool { return k.Len() == 0 }, eternal, ms)
	require.EqualValues(t, 3, asked.Load())
	require.GreaterOrEqual(t, time.Since(start), 24*beat+3*timeout)
}

func TestKernelFallsBackToReadWhereTheSocketCannotTell(t *testing.T) {
	t.Parallel()
	for name, conns := range map[string]func() (a, b net.Conn){
		"unix": func() (a, b net.Conn) { return connect(t, "unix") },
		"pipe": net.Pipe,
		"mptcp": func() (a, b net.Conn) {
			var d net.Dialer
			d.SetMultipathTCP(true)
			ln := listen(t, "tcp")
			a, err := d.DialContext(context.Background(), "tcp", ln.Addr().String())
			require.NoError(t, err)
			b, err = ln.Accept()
			require.NoError(t, err)
			return a, b
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log logtest.Log
			k := newKernelKeeper(t, Config{Logger: log.Logger(slog.LevelWarn)})
			client, server := conns()
			if c, ok := server.(*net.TCPConn); ok {
				if yes, err := c.MultipathTCP(); err != nil || !yes {
					t.Skip("no MPTCP here")
				}
			}
			t.Cleanup(func() { client.Close() })
			conn := k.Conn(server)
			require.False(t, tells(conn))
			go trickle(client, 24)
			reads, moved, got := 0, 0, 0
			var last time.Time
			for got < 24 {
				last = time.Now()
				g := Of(conn)
				g.timer.Look()
				n, err := conn.Read(make([]byte, 8))
				require.NoError(t, err)
				if !g.quiet() {
					moved++
				}
				reads++
				got += n
			}
			// A machine with other work may read twice in a tick.
			require.GreaterOrEqual(t, moved, reads/2, "a touch per read")
			_, err := conn.Read(make([]byte, 8))
			requireIdleTimeout(t, err)
			require.GreaterOrEqual(t, time.Since(last), timeout)
			again, peer := pipe(k)
			peer.Close()
			again.Close()
			require.Equal(t, 1, strings.Count(log.String(), "as with ActivityRead"), log.String())
			require.Contains(t, log.String(), fmt.Sprintf("%T", server))
		})
	}
}

func TestKernelAsksTheSocketInside(t *testing.T) {
	k := newKernelKeeper(t, Config{})
	_, server := connect(t, "tcp")
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	require.True(t, tells(tls.Server(server, config)))
	require.True(t, tells(k.Conn(server)))
	end, _ := net.Pipe()
	require.False(t, tells(tls.Server(end, config)))
	require.False(t, tells(k.Conn(end)))
	require.NoError(t, server.Close())
	require.False(t, tells(server))
}

// After a stop a process reads at once what its peers have sent in the meantime.
func TestBeatsOfATimeInWhichTheProcessWasStoppedAreNotTooMany(t *testing.T) {
	if os.Getenv("KEEPALIVE_TEST_STOPPED") != "" {
		k := newKeeper(t, Config{Timeout: time.Minute, Rate: Rate{MinBeat: time.Second, Strikes: 1}})
		ln := k.Listener(listen(t, "tcp"))
		fmt.Println(ln.Addr())
		conn, err := ln.Accept()
		require.NoError(t, err)
		for range 14 { // of a peer that beats each second: five of them came in the stop
			require.True(t, Touch(conn))
		}
		_, err = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn})
		require.NoError(t, err)
		return
	}
	t.Parallel()
	server, c := startServer(t)
	begin := time.Now()
	say(t, c)
	require.NoError(t, server.Process.Signal(syscall.SIGSTOP))
	time.Sleep(5 * time.Second)
	require.NoError(t, server.Process.Signal(syscall.SIGCONT))
	time.Sleep(time.Until(begin.Add(17 * time.Second))) // the window, the stop, the second after it
	say(t, c)
}

// A stopped process hears nobody, and its peers may wait for its answer.
func TestKernelTimeInWhichTheProcessWasStoppedDoesNotCount(t *testing.T) {
	const timeout = 4 * time.Second
	if os.Getenv("KEEPALIVE_TEST_STOPPED") != "" {
		k := newKeeper(t, Config{Timeout: timeout, Activity: ActivityKernel})
		ln := k.Listener(listen(t, "tcp"))
		fmt.Println(ln.Addr())
		conn, err := ln.Accept()
		require.NoError(t, err)
		_, err = io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn}) // no transfer
		requireIdleTimeout(t, err)
		return
	}
	t.Parallel()
	server, c := startServer(t)
	time.Sleep(timeout / 2)
	say(t, c)
	time.Sleep(100 * ms)
	require.NoError(t, server.Process.Signal(syscall.SIGSTOP))
	time.Sleep(timeout + time.Second)
	require.NoError(t, server.Process.Signal(syscall.SIGCONT))
	// The second after the stop does not count either. The rest of the timeout runs from the
	// last byte on.
	time.Sleep(time.Second + timeout - 1600*ms)
	start := time.Now()
	say(t, c)
	_, err := c.Read(make([]byte, 1))
	require.ErrorIs(t, err, io.EOF)
	require.GreaterOrEqual(t, time.Since(start), timeout-beat)
}

func TestARoundTripDoesNotCountTheTimeInWhichTheProcessWasStopped(t *testing.T) {
	const stop = 5 * time.Second
	if os.Getenv("KEEPALIVE_TEST_STOPPED") != "" {
		send := func(conn any) error { _, err := conn.(net.Conn).Write([]byte("?")); return err }
		k := newKeeper(t, Config{Timeout: time.Minute, Probe: Probing{Send: send, After: 200 * ms, Count: 1}})
		ln := k.Listener(listen(t, "tcp"))
		fmt.Println(ln.Addr())
		conn, err := ln.Accept()
		require.NoError(t, err)
		_, err = io.ReadFull(conn, make([]byte, 1))
		require.NoError(t, err)
		roundTrip, ok := Of(conn).Pong()
		require.True(t, ok)
		require.Less(t, roundTrip, stop)
		_, err = conn.Write([]byte("x"))
		require.NoError(t, err)
		_, _ = io.Copy(io.Discard, conn)
		return
	}
	t.Parallel()
	server, c := startServer(t)
	_, err := io.ReadFull(c, make([]byte, 1))
	require.NoError(t, err)
	require.NoError(t, server.Process.Signal(syscall.SIGSTOP))
	time.Sleep(stop)
	require.NoError(t, server.Process.Signal(syscall.SIGCONT))
	say(t, c)
}

// startServer runs this test as a server of another process, to be stopped, and connects to it.
func startServer(t *testing.T) (server *exec.Cmd, c net.Conn) {
	server = exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	server.Env = append(os.Environ(), "KEEPALIVE_TEST_STOPPED=yes")
	out, err := server.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(t, err)
	c, err = net.Dial("tcp", strings.TrimSpace(addr))
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return server, c
}

// say sends a byte to that server, and waits for the answer.
func say(t *testing.T, c net.Conn) {
	_, err := c.Write([]byte("x"))
	require.NoError(t, err)
	_, err = io.ReadFull(c, make([]byte, 1))
	require.NoError(t, err)
}
