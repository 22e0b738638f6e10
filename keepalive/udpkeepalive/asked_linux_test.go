package udpkeepalive

import (
	"bytes"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// wrapAt returns a Conn whose sessions end with "bye".
func wrapAt(t *testing.T, network, addr string) *Conn[int] {
	socket, err := net.ListenPacket(network, addr)
	require.NoError(t, err)
	k, err := keepalive.New(keepalive.Config{
		Closing: keepalive.Closing{Farewell: func(any, keepalive.Reason) []byte { return []byte("bye") }},
	})
	require.NoError(t, err)
	t.Cleanup(func() { k.Close() })
	return Wrap[int](socket.(*net.UDPConn), k)
}

// The clients are connected: the kernel drops answers from another address than they have asked.
func TestAWildcardAddressAnswersFromTheAskedOne(t *testing.T) {
	t.Parallel()
	for _, tests := range []struct {
		network, addr string
		asked         []string
	}{
		{"udp4", "0.0.0.0:0", []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}},
		{"udp6", "[::]:0", []string{"::1"}},
		{"udp", "[::]:0", []string{"127.0.0.2", "::1", "127.0.0.1"}},
	} {
		t.Run(tests.network, func(t *testing.T) {
			t.Parallel()
			conn := wrapAt(t, tests.network, tests.addr)
			conn.Accept = func(datagram []byte, path Path) bool {
				if string(datagram) == "cookie" {
					return true
				}
				_, _ = conn.WriteTo([]byte("cookie"), path)
				return false
			}
			run(t, conn, 1)
			for _, host := range tests.asked {
				c := dial(t, conn, host)
				require.Equal(t, "cookie", ask(t, c, "hello"), "an answer to a stranger")
				require.Equal(t, "1", ask(t, c, "cookie"))
				session := conn.Find(pathOf(c))
				require.NotNil(t, session)
				require.Equal(t, pathOf(c), session.Path())
				_, err := session.Write([]byte("by itself"))
				require.NoError(t, err)
				require.Equal(t, "by itself", answer(t, c))
				keepalive.Of(session).Close(keepalive.ReasonDrain)
				require.Equal(t, "bye", answer(t, c))
			}
		})
	}
}

// One socket asks several addresses, so they have the same peer.
func TestAPeerThatAsksTwoAddressesHasTwoSessions(t *testing.T) {
	t.Parallel()
	conn := wrapAt(t, "udp", "[::]:0")
	run(t, conn, 1)
	port := conn.LocalAddr().(*net.UDPAddr).AddrPort().Port()
	first := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), port)
	second := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), port)
	client, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	require.NoError(t, err)
	defer client.Close()
	require.NoError(t, client.SetDeadline(time.Now().Add(eternal)))
	hear := func(want string, from netip.AddrPort) {
		t.Helper()
		buf := make([]byte, 100)
		n, got, err := client.ReadFromUDPAddrPort(buf)
		require.NoError(t, err)
		require.Equal(t, want, string(buf[:n]))
		require.Equal(t, from, got)
	}
	asks := func(to netip.AddrPort, want string) {
		t.Helper()
		_, err := client.WriteToUDPAddrPort([]byte("hello"), to)
		require.NoError(t, err)
		hear(want, to)
	}
	asks(first, "1")
	asks(second, "1")
	asks(first, "2")
	require.Equal(t, 2, conn.sessions.keeper.Len())
	path := Path{client.LocalAddr().(*net.UDPAddr).AddrPort(), first.Addr()}
	keepalive.Of(conn.Find(path)).Close(keepalive.ReasonDrain)
	hear("bye", first)
	asks(second, "2")
	asks(first, "1")
}

// The answer to a broadcast comes from the address of the interface: nothing can be sent from the asked one.
func TestABroadcastIsAnsweredFromTheInterface(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"udp4", "udp"} {
		conn := wrapAt(t, network, ":0")
		run(t, conn, 1)
		client, err := net.ListenUDP("udp4", nil)
		require.NoError(t, err)
		defer client.Close()
		to := conn.LocalAddr().(*net.UDPAddr).AddrPort()
		_, err = client.WriteToUDPAddrPort([]byte("hello"), netip.AddrPortFrom(netip.MustParseAddr("127.255.255.255"), to.Port()))
		require.NoError(t, err)
		require.NoError(t, client.SetDeadline(time.Now().Add(eternal)))
		_, from, err := client.ReadFromUDPAddrPort(make([]byte, 100))
		require.NoError(t, err)
		require.Equal(t, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), to.Port()), from)
	}
}

func TestTheAskedAddressAllocatesNothing(t *testing.T) {
	conn := wrapAt(t, "udp", "[::]:0")
	defer conn.Close()
	c := dial(t, conn, "127.0.0.2")
	buf := make([]byte, 100)
	_, err := c.Write([]byte("hello"))
	require.NoError(t, err)
	_, session, err := conn.Read(buf)
	require.NoError(t, err)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = session.Write(buf[:1])
		_, _ = c.Read(buf)
		_, _ = c.Write(buf[:1])
		_, again, err := conn.Read(buf)
		if err != nil || again != session {
			t.Error("not the same session", err)
		}
	}))
}

func TestASocketOfOneAddressIsNotAsked(t *testing.T) {
	t.Parallel()
	conn := wrapAt(t, "udp", "127.0.0.2:0")
	run(t, conn, 1)
	c := dial(t, conn, "127.0.0.2")
	require.Equal(t, "1", ask(t, c, "hello"))
	require.NotNil(t, conn.Find(Path{Peer: c.LocalAddr().(*net.UDPAddr).AddrPort()}))
}

func TestASocketThatDoesNotTellIsLogged(t *testing.T) {
	t.Parallel()
	var logged bytes.Buffer
	k, err := keepalive.New(keepalive.Config{Logger: slog.New(slog.NewTextHandler(&logged, nil))})
	require.NoError(t, err)
	defer k.Close()
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0", "[::]:0"} {
		socket := listen(t, addr)
		require.NoError(t, socket.Close()) // so it tells nothing
		Wrap[int](socket, k)
	}
	require.Equal(t, 1, strings.Count(logged.String(), "level=WARN"), logged.String())
	require.Contains(t, logged.String(), "addr=[::]:")
}
