package main

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

func TestMain(m *testing.M) { exampletest.Main(m) }

// patience is how long the proxy of a test bears silence. It is longer than two intervals of the server's streams.
const patience = 3 * exampletest.Timeout / 4

// connect connects the SDK's client to a server. gets counts its GETs: one for the stream of notifications, and one for
// each stream that is lost. changes gets a value for each notification.
func connect(t *testing.T, addr string) (session *mcp.ClientSession, gets *atomic.Int32, changes chan struct{}) {
	changes, gets = make(chan struct{}, 10), new(atomic.Int32)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "v0"}, &mcp.ClientOptions{
		ResourceListChangedHandler: func(context.Context, *mcp.ResourceListChangedRequest) { changes <- struct{}{} },
	})
	counted := roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodGet {
			gets.Add(1)
		}
		return transport.RoundTrip(r)
	})
	session, err := client.Connect(t.Context(), &mcp.StreamableClientTransport{
		Endpoint:   "http://" + addr,
		HTTPClient: &http.Client{Transport: counted},
	}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session, gets, changes
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// call calls a tool, and returns what it says.
func call(ctx context.Context, session *mcp.ClientSession, tool string, args any) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, exampletest.Late)
	defer cancel()
	result, err := session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: args})
	if err != nil {
		return "", err
	}
	return result.Content[0].(*mcp.TextContent).Text, nil
}

// Without comments, the proxy ends the streams, and the client asks for the rest by another GET.
func TestASlowToolOutlivesAProxy(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		start func(t *testing.T) (addr string)
		kept  bool
	}{
		{"with comments", func(t *testing.T) string { return exampletest.Serve(t, serve).Addr }, true},
		{"without", startWithoutComments, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			session, gets, _ := connect(t, startProxy(t, test.start(t)))
			d := 3 * patience
			said, err := call(t.Context(), session, "wait", waitFor{d.String()})
			require.NoError(t, err)
			require.Equal(t, "waited for "+d.String(), said)
			require.Equal(t, test.kept, gets.Load() == 1)
		})
	}
}

func startWithoutComments(t *testing.T) (addr string) {
	tools := newTools()
	s := httptest.NewServer(handler(tools))
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	t.Cleanup(func() {
		for session := range tools.Sessions() {
			require.NoError(t, session.Close())
		}
	})
	return s.Listener.Addr().String()
}

// A client that waits for notifications gets the first one on the stream that it has opened in the beginning.
func TestAQuietSessionHearsANotification(t *testing.T) {
	t.Parallel()
	s := exampletest.Serve(t, serve)
	_, gets, changes := connect(t, startProxy(t, s.Addr))
	time.Sleep(3 * patience)
	other, _, _ := connect(t, s.Addr)
	said, err := call(t.Context(), other, "keep", note{"milk"})
	require.NoError(t, err)
	require.Equal(t, "kept milk", said)
	select {
	case <-changes:
	case <-time.After(exampletest.Late):
		require.Fail(t, "no notification")
	}
	require.EqualValues(t, 1, gets.Load())
}

func TestBadArguments(t *testing.T) {
	t.Parallel()
	session, _, _ := connect(t, exampletest.Serve(t, serve).Addr)
	said, err := call(t.Context(), session, "wait", waitFor{"a while"})
	require.NoError(t, err)
	require.Equal(t, `for="a while": must be a duration of up to 1h, such as 45s`, said)
}

// startProxy starts a proxy that closes a connection after a silence of both sides, as proxies do. It is a Keeper: so a
// time in which this process did not run is no silence.
func startProxy(t *testing.T, server string) (addr string) {
	k, err := keepalive.New(keepalive.Config{Timeout: patience, Activity: keepalive.ActivityReadWrite})
	require.NoError(t, err)
	t.Cleanup(func() { k.Close() })
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	t.Cleanup(func() { ln.Close() })
	running.Go(func() {
		for {
			client, err := k.Listener(ln).Accept()
			if err != nil {
				return
			}
			running.Go(func() { relay(t.Context(), client, server) })
		}
	})
	return ln.Addr().String()
}

func relay(ctx context.Context, client net.Conn, addr string) {
	defer client.Close()
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return
	}
	end := func() { client.Close(); server.Close() }
	defer end()
	defer context.AfterFunc(ctx, end)()
	var both sync.WaitGroup
	forward := func(to, from net.Conn) {
		defer end()
		_, _ = io.Copy(to, from)
	}
	both.Go(func() { forward(server, client) })
	both.Go(func() { forward(client, server) })
	both.Wait()
}
