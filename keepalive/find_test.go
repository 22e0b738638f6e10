package keepalive

import (
	"crypto/tls"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/keepalive/adapter"
)

// knowsForeign says whether an adapter knows foreign connections.
var knowsForeign atomic.Bool

func init() {
	adapter.Find(func(any) adapter.Binding { return (*Guard)(nil).Binding() }) // it hides no adapter that comes later
	adapter.Find(func(conn any) adapter.Binding {
		if c, ok := conn.(foreign); ok && knowsForeign.Load() {
			return c.g.Binding()
		}
		return nil
	})
	adapter.Find(func(any) adapter.Binding { return nil })
}

// foreign is a connection of another framework, without a place for a guard.
type foreign struct{ g *Guard }

// wrongWay is a connection whose layer leads to nobody.
type wrongWay struct{ net.Conn }

// A value that no Keeper can know compiles, touches nobody, and its living peer is closed.
func TestTouchOfAStrangerIsLoggedOncePerType(t *testing.T) {
	var log logtest.Log
	before := slog.Default()
	slog.SetDefault(log.Logger(slog.LevelWarn))
	defer slog.SetDefault(before)
	known := strangers
	strangers = new(strangerTypes)
	defer func() { strangers = known }()

	k := newKeeper(t, Config{})
	conn, peer := pipe(k)
	for _, c := range []any{conn, tls.Server(conn, nil), &headed{Conn: conn}, nil, (*tls.Conn)(nil), (*Guard)(nil), new(Guard), &fakeLoopConn{}} {
		Touch(c)
	}
	g, err := guardOf(k, nil)
	require.NoError(t, err)
	require.True(t, g.release()) // as of an adapter: it is found no more
	Touch(g.conn)
	require.NoError(t, k.Close())
	Touch(k.Conn(peer))
	require.Empty(t, log.String())
	a, _ := net.Pipe()
	Touch(a)
	require.Empty(t, log.String(), "of the type of one that came after Close")

	for range 3 {
		require.False(t, Touch("oops"))
		require.False(t, Touch(hiding{conn}))
		require.False(t, Touch(tls.Server(wrongWay{conn}, nil)))
		require.False(t, Touch(wrongWay{conn}))
	}
	require.Equal(t, 3, strings.Count(log.String(), "level=WARN"), log.String())
	for _, said := range []string{"conn=string", "conn=keepalive.hiding", "conn=*tls.Conn inside=keepalive.wrongWay"} {
		require.Contains(t, log.String(), said)
	}

	for strangers.n.Load() < maxStrangers { // a program that makes types
		Touch(reflect.New(reflect.ArrayOf(int(strangers.n.Load()), reflect.TypeFor[byte]())).Interface())
	}
	lines := strings.Count(log.String(), "\n")
	require.False(t, Touch(1.5))
	require.EqualValues(t, maxStrangers, strangers.n.Load())
	require.Equal(t, lines, strings.Count(log.String(), "\n"))
}

// What can't be guarded is refused at once, and says what was wrong.
func TestNothingIsRefusedAtOnce(t *testing.T) {
	k := newKeeper(t, Config{})
	a, _ := net.Pipe()
	ln := layered{}
	for want, f := range map[string]func(){
		"keepalive: Listener needs a listener, and got <nil>":                   func() { k.Listener(nil) },
		"keepalive: Listener needs a listener, and got (*net.TCPListener)(nil)": func() { k.Listener((*net.TCPListener)(nil)) },
		"keepalive: Conn needs a connection, and got <nil>":                     func() { k.Conn(nil) },
		"keepalive: Conn needs a connection, and got (*net.TCPConn)(nil)":       func() { k.Conn((*net.TCPConn)(nil)) },
		"keepalive: Listener needs a Keeper from New":                           func() { (*Keeper)(nil).Listener(ln) },
		"keepalive: Conn needs a Keeper from New":                               func() { new(Keeper).Conn(a) },
		"keepalive: Bind needs a Keeper from New":                               func() { _ = (*Keeper)(nil).Bind(new(Guard), a, nil, nil) },
	} {
		require.PanicsWithValue(t, want, f)
	}
	ln = layered{listen(t, "tcp"), func(net.Conn) net.Conn { return nil }}
	peer, err := net.Dial("tcp", ln.Addr().String())
	require.NoError(t, err)
	defer peer.Close()
	_, err = k.Listener(ln).Accept()
	require.EqualError(t, err, "keepalive: the listener keepalive.layered accepted the nil connection <nil>")
	require.Zero(t, k.Len())
}

func TestTouchAndOfTakeNilPointers(t *testing.T) {
	for _, c := range []any{nil, (*tls.Conn)(nil), (*net.TCPConn)(nil), (*tcpConn)(nil), (*halfConn)(nil), (*Guard)(nil), (*fakeLoopConn)(nil), (*headed)(nil), &headed{}, tls.Server(nil, nil)} {
		require.Nil(t, Of(c), "%T", c)
		require.False(t, Touch(c), "%T", c)
	}
}

func TestOfFindsGuards(t *testing.T) {
	k := newKeeper(t, Config{Rate: Rate{MinBeat: time.Second}})
	g, err := guardOf(k, nil)
	require.NoError(t, err)
	require.Nil(t, Of(foreign{g}), "nobody knows it yet")
	knowsForeign.Store(true)
	defer knowsForeign.Store(false)
	require.Same(t, g, Of(foreign{g}))
	require.Same(t, g, Of(g))
	for _, conn := range []any{foreign{}, foreign{new(Guard)}, new(Guard), (*Guard)(nil), 7, nil} {
		require.Nil(t, Of(conn))
		require.False(t, Touch(conn))
	}
	for beats, conn := range []any{g, foreign{g}, &fakeLoopConn{ctx: g}} {
		require.True(t, Touch(conn))
		require.EqualValues(t, beats+1, g.beats.Load())
	}
}

func TestAGuardStaysTheHandleOfItsConnection(t *testing.T) {
	k := newKeeper(t, Config{})
	a, b := net.Pipe()
	defer b.Close()
	c := k.Conn(a)
	g := Of(c)
	require.NotNil(t, g)
	require.Same(t, g, Of(tls.Client(c, &tls.Config{ServerName: "x"})))
	require.NoError(t, c.Close())
	require.Same(t, g, Of(c))
	for _, c := range []net.Conn{nil, b, (*tls.Conn)(nil)} {
		require.Nil(t, Of(c))
	}
}

// early is a connection of another framework whose guard is not there yet.
type early struct {
	g *Guard
	_ int // or the value itself would be a nil pointer
}

func (e early) SafeContext() any { return e.g }

func TestTouchOfAConnectionWithoutItsGuardYet(t *testing.T) {
	require.False(t, Touch(early{}))
	require.Nil(t, Of(early{}))
	require.False(t, Touch(early{g: new(Guard)}))
}
