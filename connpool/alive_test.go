package connpool

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const eternal = time.Minute

// pair returns both ends of a connection of real sockets.
func pair(t testing.TB, network string) (here, there net.Conn) {
	t.Helper()
	addr := "127.0.0.1:0"
	if network == "unix" {
		dir, err := os.MkdirTemp("", "hw") // t.TempDir is too long for some systems
		require.NoError(t, err)
		t.Cleanup(func() { os.RemoveAll(dir) })
		addr = filepath.Join(dir, "s")
	}
	ln, err := net.Listen(network, addr)
	require.NoError(t, err)
	defer ln.Close()
	here, err = net.Dial(network, ln.Addr().String())
	require.NoError(t, err)
	there, err = ln.Accept()
	require.NoError(t, err)
	t.Cleanup(func() {
		here.Close()
		there.Close()
	})
	return here, there
}

func TestAliveSeesAResetAndItsOwnClose(t *testing.T) {
	here, there := pair(t, "tcp")
	if runtime.GOOS != "windows" {
		require.NoError(t, there.(*net.TCPConn).SetLinger(0))
		require.NoError(t, there.Close())
		require.Eventually(t, func() bool { return Alive(bg, here) != nil }, eternal, ms)
		require.Error(t, Alive(bg, here), "still, when the socket has told its error")
	}
	require.NoError(t, here.Close())
	require.ErrorIs(t, Alive(bg, here), net.ErrClosed)
}

func TestAliveTakesNothingFromTheSocket(t *testing.T) {
	here, there := pair(t, "tcp")
	_, err := there.Write([]byte("hello"))
	require.NoError(t, err)
	if runtime.GOOS != "windows" {
		require.Eventually(t, func() bool { return Alive(bg, here) != nil }, eternal, ms)
	}
	require.NoError(t, there.Close())
	all, err := io.ReadAll(here)
	require.NoError(t, err)
	require.Equal(t, "hello", string(all))
}

// TLS 1.3 sends tickets after the handshake. Nobody reads them before there is an answer.
func TestAliveOfTLSIsNotMisledByItsMessages(t *testing.T) {
	here, there := pair(t, "tcp")
	cert := certificate(t)
	server := tls.Server(there, &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13})
	client := tls.Client(here, &tls.Config{
		InsecureSkipVerify: true, MinVersion: tls.VersionTLS13,
		ClientSessionCache: tls.NewLRUClientSessionCache(1), // or there are no tickets
	})
	shaken := make(chan error, 1)
	go func() { shaken <- server.Handshake() }()
	require.NoError(t, client.Handshake())
	require.NoError(t, <-shaken)
	if runtime.GOOS != "windows" {
		require.Eventually(t, func() bool { return errors.Is(Alive(bg, here), ErrUnread) }, eternal, ms, "the tickets")
	}
	require.NoError(t, Alive(bg, client))
	require.NoError(t, server.Close())
	if runtime.GOOS == "linux" {
		require.Eventually(t, func() bool { return errors.Is(Alive(bg, client), io.EOF) }, eternal, ms)
	}
}

func TestAConnectionWithoutASocketIsAlive(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	require.NoError(t, b.Close())
	require.NoError(t, Alive(bg, a))
	require.NoError(t, Alive(bg, nil))
	var loop nested
	loop.inner = &loop
	require.NoError(t, Alive(bg, &loop), "of itself")
}

type nested struct {
	net.Conn
	inner net.Conn
}

func (n *nested) NetConn() net.Conn { return n.inner }

func BenchmarkAlive(b *testing.B) {
	here, _ := pair(b, "tcp")
	b.ReportAllocs()
	for b.Loop() {
		if err := Alive(bg, here); err != nil {
			b.Fatal(err)
		}
	}
}

func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	require.NoError(t, err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}
