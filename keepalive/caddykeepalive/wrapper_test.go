package caddykeepalive

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	_ "github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/proxyprotocol"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	_ "github.com/caddyserver/caddy/v2/modules/filestorage"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/certtest"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

const (
	ms      = time.Millisecond
	idle    = 400 * ms
	eternal = time.Minute
)

// site is a Caddy with one server, and its backend. There is one Caddy in a process, so tests run one after the other.
type site struct {
	*testing.T
	addr    string
	storage string
	backend *httptest.Server
}

// newSite starts the backend. /slow takes longer than idle, /events says nothing more, /ws echoes after an upgrade, and any
// other page is the address of the peer.
func newSite(t *testing.T) *site {
	s := &site{T: t, addr: free(t), storage: t.TempDir()}
	mux := http.NewServeMux()
	mux.HandleFunc("/slow", func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(3 * idle)
		fmt.Fprint(w, "done")
	})
	mux.HandleFunc("/ws", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", r.Header.Get("Upgrade"))
		w.WriteHeader(http.StatusSwitchingProtocols)
		c, rw, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = rw.Flush()
			_, _ = io.Copy(c, rw)
			_ = c.Close()
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get("X-Forwarded-For")) })
	s.backend = httptest.NewServer(mux)
	t.Cleanup(func() {
		require.NoError(t, caddy.Stop())
		s.backend.CloseClientConnections()
		s.backend.Close()
	})
	return s
}

func free(t *testing.T) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	return ln.Addr().String()
}

// load puts a Caddyfile in force.
func (s *site) load(wrappers, proxy string) {
	s.Helper()
	require.NoError(s, caddy.Load(adapted(s.T, s.caddyfile(wrappers, proxy)), true))
}

func (s *site) caddyfile(wrappers, proxy string) string {
	return fmt.Sprintf(`{
	admin off
	persist_config off
	auto_https off
	default_bind 127.0.0.1
	storage file_system %s
	log {
		output discard
	}
	servers {
		listener_wrappers {
			%s
		}
	}
}
http://%s {
	reverse_proxy %s {
		%s
	}
}`, s.storage, wrappers, s.addr, s.backend.Listener.Addr(), proxy)
}

func adapted(t *testing.T, text string) []byte {
	t.Helper()
	config, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(text), map[string]any{"filename": "Caddyfile"})
	require.NoError(t, err)
	for _, w := range warnings {
		require.Contains(t, w.Message, "not formatted")
	}
	return config
}

// client is a connection to Caddy.
type client struct {
	*testing.T
	net.Conn
	*bufio.Reader
}

func (c *client) Read(p []byte) (int, error) { return c.Reader.Read(p) }

func (s *site) dial() *client {
	s.Helper()
	c, err := net.Dial("tcp", s.addr)
	require.NoError(s, err)
	s.Cleanup(func() { c.Close() })
	require.NoError(s, c.SetDeadline(time.Now().Add(eternal)))
	return &client{s.T, c, bufio.NewReader(c)}
}

// get asks for a page on this connection.
func (c *client) get(path string) string {
	c.Helper()
	body, err := c.tryGet(path)
	require.NoError(c, err)
	return body
}

func (c *client) tryGet(path string) (string, error) {
	if _, err := fmt.Fprintf(c.Conn, "GET %s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", path); err != nil {
		return "", err
	}
	res, err := http.ReadResponse(c.Reader, nil)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return string(body), err
}

// upgrade begins to speak another protocol with the backend.
func (c *client) upgrade() {
	c.Helper()
	require.NoError(c, c.tryUpgrade())
}

func (c *client) tryUpgrade() error {
	_, err := fmt.Fprint(c.Conn, "GET /ws HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	if err != nil {
		return err
	}
	res, err := http.ReadResponse(c.Reader, nil)
	if err == nil && res.StatusCode != http.StatusSwitchingProtocols {
		err = fmt.Errorf("status %d", res.StatusCode)
	}
	return err
}

func (c *client) echo(word string) {
	c.Helper()
	require.NoError(c, c.tryEcho(word))
}

func (c *client) tryEcho(word string) error {
	if _, err := io.WriteString(c.Conn, word); err != nil {
		return err
	}
	_, err := io.ReadFull(c.Reader, make([]byte, len(word)))
	return err
}

// gone waits for the end of the connection, and returns how long that took.
func (c *client) gone(since time.Time) time.Duration {
	c.Helper()
	_, _ = io.Copy(io.Discard, c.Reader)
	return time.Since(since)
}

func TestSilentOnesAreClosedAndBusyOnesAreNot(t *testing.T) {
	s := newSite(t)
	s.load("heartwheel {\nidle 400ms\n}", "")
	require.Equal(t, "done", s.dial().get("/slow"), "a request is no silence")

	c := s.dial()
	require.Equal(t, "127.0.0.1", c.get("/"))
	last := time.Now()
	require.Equal(t, "127.0.0.1", c.get("/"))
	require.GreaterOrEqual(t, c.gone(last), idle)

	ws := s.dial()
	ws.upgrade()
	for range 10 {
		time.Sleep(idle / 8)
		last = time.Now()
		ws.echo("beat")
	}
	require.GreaterOrEqual(t, ws.gone(last), idle)

	last = time.Now()
	require.GreaterOrEqual(t, s.dial().gone(last), idle, "and one that has never said anything")
}

func TestTimesAndRoom(t *testing.T) {
	s := newSite(t)
	s.load("heartwheel {\nidle 1m\nfirst_byte 300ms\nmax_age 700ms\nper_client 2\nmax_conns 10\n}", "")
	begin := time.Now()
	silent, old := s.dial(), s.dial()
	old.upgrade()
	third := time.Now()
	require.Less(t, s.dial().gone(third), eternal/2, "a third one of this client")
	require.GreaterOrEqual(t, silent.gone(begin), 300*ms)
	require.GreaterOrEqual(t, old.gone(begin), 630*ms) // max_age, or up to a tenth less
	require.Equal(t, "127.0.0.1", s.dial().get("/"), "there is room again")
}

// A maximum age ends a connection between two requests, and a grace bounds how long that may take.
func TestAnAgeEndsBetweenRequests(t *testing.T) {
	s := newSite(t)
	s.load("heartwheel {\nidle 1m\nmax_age 300ms\n}", "")
	c := s.dial()
	require.Equal(t, "done", c.get("/slow"))
	require.Less(t, c.gone(time.Now()), eternal/2)

	s.load("heartwheel {\nidle 1m\nmax_age 100ms 200ms\n}", "")
	_, err := s.dial().tryGet("/slow")
	require.Error(t, err)
}

// The order in a Caddyfile: the proxy's header, heartwheel, TLS.
func TestClientsBehindAProxyAndTLS(t *testing.T) {
	s := newSite(t)
	s.load("proxy_protocol {\nallow 127.0.0.0/8\n}\nheartwheel {\nidle 400ms\nper_client 1\n}\ntls", "")
	ask := func(client string) (string, error) {
		c := s.dial()
		_, err := fmt.Fprintf(c.Conn, "PROXY TCP4 %s 192.0.2.9 1111 80\r\n", client)
		require.NoError(t, err)
		return c.tryGet("/")
	}
	for _, client := range []string{"192.0.2.1", "192.0.2.2"} {
		body, err := ask(client)
		require.NoError(t, err)
		require.Equal(t, client, body)
	}
	_, err := ask("192.0.2.1")
	require.Error(t, err)
	require.Eventually(t, func() bool { _, err := ask("192.0.2.1"); return err == nil }, eternal, 50*ms, "the first one was idle")
}

// The new config has the socket, and the connections of the old one keep its timeout.
func TestReload(t *testing.T) {
	s := newSite(t)
	s.load("heartwheel {\nidle 2s\n}", "stream_close_delay 1m")
	ws, busy := s.dial(), s.dial()
	ws.upgrade()
	last := time.Now()
	ws.echo("beat")
	answers := make(chan error, 1)
	go func() { _, err := busy.tryGet("/slow"); answers <- err }()
	time.Sleep(idle) // it is under way
	s.load("heartwheel {\nidle 400ms\n}", "stream_close_delay 1m")
	require.NoError(t, <-answers)
	begin := time.Now()
	require.GreaterOrEqual(t, s.dial().gone(begin), idle)
	require.GreaterOrEqual(t, ws.gone(last), 2*time.Second)
}

// Upgraded connections of the old config end evenly spread over drain.
func TestDrainAtReload(t *testing.T) {
	s := newSite(t)
	const conns, drain = 20, time.Second
	s.load("heartwheel {\nidle 1m\ndrain 1s\n}", "stream_close_delay 1m")
	var olds []*client
	for range conns {
		c := s.dial()
		c.upgrade()
		olds = append(olds, c)
	}
	begin := time.Now()
	s.load("heartwheel {\nidle 1m\n}", "stream_close_delay 1m")
	var late atomic.Int64
	var all sync.WaitGroup
	for _, c := range olds {
		all.Go(func() {
			if c.gone(begin) >= drain/2 {
				late.Add(1)
			}
		})
	}
	var young *client
	require.Eventually(t, func() bool { // Caddy drops what comes at the very moment of a reload
		young = s.dial()
		return young.tryUpgrade() == nil
	}, eternal, time.Millisecond)
	all.Wait()
	require.GreaterOrEqual(t, late.Load(), int64(conns/2-1))
	young.echo("beat")
}

// Configs follow each other while clients come and go: nobody is refused. Caddy drops a request that comes at the very moment
// of a reload, and then it is asked again.
func TestReloadUnderLoad(t *testing.T) {
	s := newSite(t)
	s.load("heartwheel {\nidle 1m\n}", "")
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var requests atomic.Int64
	for range 4 {
		clients.Go(func() {
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			for {
				select {
				case <-stop:
					return
				default:
				}
				client := &http.Client{Transport: transport, Timeout: eternal}
				res, err := client.Get("http://" + s.addr + "/")
				for errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
					res, err = client.Get("http://" + s.addr + "/")
				}
				if err != nil {
					t.Errorf("a request: %v", err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				requests.Add(1)
			}
		})
	}
	for i := range 5 {
		before := requests.Load()
		require.Eventually(t, func() bool { return requests.Load() > before+20 || t.Failed() }, eternal, ms)
		s.load(fmt.Sprintf("heartwheel {\nidle %dm\n}", i+2), "")
	}
	close(stop)
	clients.Wait()
}

func TestCaddyfile(t *testing.T) {
	s := &site{T: t, addr: "127.0.0.1:1", storage: t.TempDir(), backend: httptest.NewServer(nil)}
	defer s.backend.Close()
	text := "heartwheel {\nidle 2m\nfirst_byte 10s\nmax_age 1d 1m\nper_client 100\nmax_conns 50000 evict\ndrain 5m\n}\ntls"
	var config struct {
		Apps struct {
			HTTP struct {
				Servers map[string]struct {
					Wrappers []json.RawMessage `json:"listener_wrappers"`
				}
			}
		}
	}
	require.NoError(t, json.Unmarshal(adapted(t, s.caddyfile(text, "")), &config))
	require.JSONEq(t, `{"wrapper":"heartwheel","idle":120000000000,"first_byte":10000000000,"max_age":86400000000000,"max_age_grace":60000000000,"per_client":100,"max_conns":50000,"full":"evict","drain":300000000000}`,
		string(config.Apps.HTTP.Servers["srv0"].Wrappers[0]))
}

func TestBadOptions(t *testing.T) {
	for options, want := range map[string]string{
		"idle -5s":            "idle -5s, must be at least 1ms",
		"idle 1us":            "idle 1µs, must be at least 1ms",
		"idle soon":           `idle "soon", must be a duration such as 1m30s`,
		"idle":                "idle with 0 values, must have at least 1 and at most 1",
		"idle 1m 2m":          "idle with 2 values, must have at least 1 and at most 1",
		"idle 1m\nidle 2m":    "idle, must be given once",
		"first_byte -1s":      "first_byte -1s, must not be negative",
		"max_age -1s":         "max_age -1s, must not be negative",
		"max_age 1h -1s":      "max_age_grace -1s, must not be negative",
		"max_age 0s 1s":       "max_age_grace 1s without max_age",
		"drain -1s":           "drain -1s, must not be negative",
		"per_client many":     `per_client "many", must be a whole number`,
		"per_client -1":       "per_client -1, must not be negative",
		"max_conns -1":        "max_conns -1, must not be negative",
		"max_conns 0 evict":   "full evict without max_conns",
		"max_conns 5 perhaps": `full "perhaps", must be reject, wait or evict`,
		"timeout 5m":          `unknown option "timeout", must be idle, first_byte, max_age, per_client, max_conns or drain`,
	} {
		err := new(ListenerWrapper).UnmarshalCaddyfile(caddyfile.NewTestDispenser("heartwheel {\n" + options + "\n}"))
		require.ErrorContains(t, err, want, options)
		if strings.Contains(want, "must not be") {
			require.ErrorIs(t, err, keepalive.ErrArgument)
		}
	}
	require.Error(t, new(ListenerWrapper).UnmarshalCaddyfile(caddyfile.NewTestDispenser("heartwheel 5m")))
	require.NoError(t, new(ListenerWrapper).UnmarshalCaddyfile(caddyfile.NewTestDispenser("heartwheel")))
}

// A config that can't be put in force leaves the old one as it is.
func TestBadJSON(t *testing.T) {
	s := newSite(t)
	s.load("heartwheel {\nidle 400ms\n}", "")
	good := string(adapted(t, s.caddyfile("heartwheel {\nper_client 7\n}", "")))
	err := caddy.Load([]byte(strings.Replace(good, `"per_client":7`, `"per_client":-7`, 1)), true)
	require.ErrorContains(t, err, "heartwheel: invalid argument: per_client -7, must not be negative")
	begin := time.Now()
	require.GreaterOrEqual(t, s.dial().gone(begin), idle)
}

// Without a server of HTTP there are no requests to know of: bytes count.
func TestCleanupWithoutAServer(t *testing.T) {
	w := new(ListenerWrapper)
	require.NoError(t, w.Cleanup())
	ctx, cancel := caddy.NewContext(caddy.Context{Context: t.Context()})
	defer cancel()
	require.NoError(t, w.Provision(ctx))
	require.NoError(t, w.Validate())
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ln := w.WrapListener(inner)
	defer ln.Close()
	client, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer client.Close()
	c, err := ln.Accept()
	require.NoError(t, err)
	require.NotNil(t, keepalive.Of(c))
	require.NoError(t, w.Cleanup())
	c.Close()
	require.Eventually(t, func() bool {
		_, known := keepalive.Of(c).Info()
		return !known
	}, eternal, ms)
}

// Over TLS a stream of HTTP/2 is a request like any other, and the last one ends with the connection.
func TestRequestsOfHTTP2(t *testing.T) {
	s := newSite(t)
	cert, pool := certtest.New(t)
	dir := t.TempDir()
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	require.NoError(t, err)
	for name, block := range map[string]*pem.Block{"cert": {Type: "CERTIFICATE", Bytes: cert.Certificate[0]}, "key": {Type: "PRIVATE KEY", Bytes: key}} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600))
	}
	text := strings.Replace(s.caddyfile("heartwheel {\nidle 400ms\n}\ntls", ""), "http://"+s.addr+" {", "https://"+s.addr+" {\ntls "+dir+"/cert "+dir+"/key", 1)
	require.NoError(t, caddy.Load(adapted(t, text), true))
	closed := make(chan time.Time, 9)
	transport := &http.Transport{
		ForceAttemptHTTP2: true,
		TLSClientConfig:   &tls.Config{RootCAs: pool},
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, s.addr)
			return &closing{Conn: c, closed: closed}, err
		},
	}
	defer transport.CloseIdleConnections()
	for range 2 {
		res, err := (&http.Client{Transport: transport, Timeout: eternal}).Get("https://" + s.addr + "/slow")
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, "done", string(body))
		require.Equal(t, 2, res.ProtoMajor)
		_ = res.Body.Close()
		require.Empty(t, closed)
	}
	last := time.Now()
	require.GreaterOrEqual(t, (<-closed).Sub(last), idle-100*ms) // the response was over a little earlier than here
}

// closing tells of its end.
type closing struct {
	net.Conn
	once   sync.Once
	closed chan time.Time
}

func (c *closing) Close() error {
	c.once.Do(func() { c.closed <- time.Now() })
	return c.Conn.Close()
}
