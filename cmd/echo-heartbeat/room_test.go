package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// crowd is peers with open connections.
type crowd struct {
	addr  string
	conns []net.Conn
}

// join opens a connection and sends the begin of something.
func (c *crowd) join(t *testing.T, begin string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", c.addr)
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	_, _ = fmt.Fprint(conn, begin) // it may have been evicted
	c.conns = append(c.conns, conn)
	return conn
}

// healthy returns how many of several health checks are answered, and how many descriptors
// the program had at most.
func (p *process) healthy(t *testing.T, checks int, pause time.Duration) (answered, descriptors int) {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for range checks {
		if res, err := client.Get("http://" + p.addr(t, "admin") + "/healthz"); err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				answered++
			}
		}
		time.Sleep(pause)
		descriptors = max(descriptors, p.descriptors(t))
	}
	return answered, descriptors
}

var openDescriptors = regexp.MustCompile(`\nprocess_open_fds (\d+)\n`)

// descriptors returns how many descriptors the program has, or 0 if it does not say.
func (p *process) descriptors(t *testing.T) int {
	client := http.Client{Timeout: eternal, Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get("http://" + p.addr(t, "admin") + "/metrics")
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	var body strings.Builder
	_, _ = bufio.NewReader(res.Body).WriteTo(&body)
	found := openDescriptors.FindStringSubmatch(body.String())
	if found == nil {
		return 0
	}
	n, err := strconv.Atoi(found[1])
	require.NoError(t, err)
	return n
}

// A health check is answered at once, whatever the connections before it do.
func TestPeersThatStayLockNobodyOut(t *testing.T) {
	const request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n"
	for name, begin := range map[string]string{
		"silent":             "",
		"in the first line":  "GET /rea",
		"in a header":        request + "X-Long: ",
		"in a body":          request + "Content-Length: 1000000\r\n\r\nx",
		"with bytes to read": request + "\r\n" + strings.Repeat("x", 20_000),
	} {
		t.Run(name, func(t *testing.T) {
			p := start(t, process{args: []string{"-admin", "127.0.0.1:0"}})
			before := p.descriptors(t)
			c := crowd{addr: p.addr(t, "admin")}
			for range 5 {
				for range 2 * adminConns {
					c.join(t, begin)
				}
				answered, _ := p.healthy(t, 3, 0)
				require.Equal(t, 3, answered)
				require.Eventually(t, func() bool {
					n := p.descriptors(t)
					return n > 0 && n <= before+2*adminConns
				}, eternal, 20*time.Millisecond, "half of them have to go, as soon as they can")
			}
		})
	}
}

// 50 slow connections a second, for some seconds.
func TestAFloodOfSlowPeersLocksNobodyOut(t *testing.T) {
	t.Parallel() // it mostly waits
	p := start(t, process{args: []string{"-admin", "127.0.0.1:0"}})
	before := p.descriptors(t)
	var flood sync.WaitGroup
	done := make(chan struct{})
	flood.Go(func() {
		c := crowd{addr: p.addr(t, "admin")}
		for again := time.Tick(20 * time.Millisecond); ; {
			select {
			case <-again:
				c.join(t, "GET /readyz HTTP/1.1\r\nX-Slow: ")
				for _, conn := range c.conns[max(0, len(c.conns)-2*adminConns):] {
					_, _ = conn.Write([]byte("x")) // it trickles
				}
			case <-done:
				return
			}
		}
	})
	answered, descriptors := p.healthy(t, 100, 30*time.Millisecond)
	close(done)
	flood.Wait()
	require.GreaterOrEqual(t, answered, 98)
	require.Positive(t, descriptors)
	require.LessOrEqual(t, descriptors, before+5*adminConns, "of more than 150 peers; the last ones may be on their way out")
}

// serveRoom has a room answer requests by a handler.
func serveRoom(t *testing.T, handler http.HandlerFunc) (*room, *crowd) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	r, err := newRoom(ln)
	require.NoError(t, err)
	s := r.newServer(handler, nil)
	served := make(chan error)
	go func() { served <- s.Serve(r) }()
	t.Cleanup(func() {
		require.NoError(t, s.Close())
		require.ErrorIs(t, <-served, http.ErrServerClosed)
		require.NoError(t, r.keeper.Close())
	})
	return r, &crowd{addr: ln.Addr().String()}
}

// Neither half of the room takes a place of the other.
func TestSilentPeersEvictNoRequest(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	_, c := serveRoom(t, func(w http.ResponseWriter, _ *http.Request) {
		begun <- struct{}{}
		<-end
		fmt.Fprint(w, "answer")
	})
	var asked []net.Conn
	for range adminConns / 2 {
		asked = append(asked, c.join(t, "GET / HTTP/1.0\r\n\r\n"))
		<-begun
	}
	for range 10 * adminConns {
		c.join(t, "GET")
	}
	close(end)
	for _, conn := range asked {
		require.NoError(t, conn.SetDeadline(time.Now().Add(eternal)))
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
	}
}

func TestTheOldestRequestMakesRoom(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	r, c := serveRoom(t, func(http.ResponseWriter, *http.Request) {
		begun <- struct{}{}
		<-end
	})
	defer close(end)
	for i := range 3 * adminConns {
		c.join(t, "GET / HTTP/1.0\r\n\r\n")
		<-begun
		require.LessOrEqual(t, r.keeper.Len(), adminConns)
		if i < adminConns {
			continue
		}
		gone := c.conns[i-adminConns]
		require.NoError(t, gone.SetDeadline(time.Now().Add(eternal)))
		_, err := gone.Read(make([]byte, 1))
		require.Error(t, err)
		require.NotErrorIs(t, err, net.ErrClosed)
		var timeout net.Error
		require.False(t, errors.As(err, &timeout) && timeout.Timeout(), err)
	}
}
