package debughttp

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

const local = "127.0.0.1:4711"

func newKeeper(t testing.TB, cfg keepalive.Config) *keepalive.Keeper {
	k, err := keepalive.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { k.Close() })
	return k
}

func newHandler(t testing.TB, k *keepalive.Keeper, cfg Config) *Handler {
	h, err := New(k, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { h.Close() })
	return h
}

// from returns a request for JSON.
func from(remote, host string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/debug/wheel?format=json", nil)
	r.RemoteAddr, r.Host = remote, host
	return r
}

func ask(h http.Handler, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// see returns what the JSON says now.
func see(t testing.TB, h http.Handler) Snapshot {
	w := ask(h, from(local, "localhost"))
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	var s Snapshot
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &s))
	return s
}

// listed returns the connections that a query finds.
func listed(t testing.TB, h http.Handler, query string) Listing {
	w := asked(h, query)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	var l Listing
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &l))
	return l
}

// asked returns the answer to a query for connections.
func asked(h http.Handler, query string) *httptest.ResponseRecorder {
	r := from(local, "localhost")
	r.URL.RawQuery = "view=connections&format=json&" + query
	return ask(h, r)
}

// addr is an address with any text.
type addr string

func (a addr) Network() string { return "test" }
func (a addr) String() string {
	if a == "panic" {
		panic("an address that panics")
	}
	return string(a)
}

// peer is a connection with a given address of its peer.
type peer struct {
	net.Conn
	from net.Addr
}

func (p *peer) RemoteAddr() net.Addr { return p.from }

// NetConn shows that nothing waits inside: it is a pipe.
func (p *peer) NetConn() net.Conn { return p.Conn }

// connect returns a guarded connection from an address, and its other end. A byte has already
// come: before the first byte nobody asks this type of peer for its address.
func connect(t testing.TB, k *keepalive.Keeper, from net.Addr) (here, there net.Conn) {
	a, b := net.Pipe()
	t.Cleanup(func() { a.Close(); b.Close() })
	here = k.Conn(&peer{Conn: a, from: from})
	go func() { _, _ = b.Write([]byte{0}) }()
	_, _ = here.Read(make([]byte, 1))
	return here, b
}

// stuck is an adapter without an answer in time. The zero one panics.
type stuck struct {
	asked   chan struct{}
	release chan struct{}
}

func (s *stuck) Do(context.Context, adapter.Binding, func()) error {
	if s.asked == nil {
		panic("asked for its address")
	}
	s.asked <- struct{}{}
	<-s.release
	return net.ErrClosed
}

func (s *stuck) Due(adapter.Binding)                          {}
func (s *stuck) Control(adapter.Binding, func(uintptr)) error { return net.ErrClosed }
func (s *stuck) Peer(adapter.Binding) net.Addr                { return nil }
func (s *stuck) End(adapter.Binding, adapter.Ending)          {}
