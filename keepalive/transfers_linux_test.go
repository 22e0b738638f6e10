package keepalive

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// One that stayed would make the acknowledgements of all later bytes signs of life.
func TestATransferEndsWithItsCall(t *testing.T) {
	k := newKeeper(t, Config{})
	peer, inner := connect(t, "tcp")
	c := k.Conn(inner).(*tcpConn)
	running := func() int32 { return c.transfers.Load() }
	r := readerFunc(func([]byte) (int, error) {
		require.EqualValues(t, 1, running())
		return 0, io.EOF
	})
	_, err := c.ReadFrom(r)
	require.NoError(t, err)
	require.Zero(t, running())

	_, err = peer.Write([]byte("xyz"))
	require.NoError(t, err)
	_, other := connect(t, "tcp")
	limited := &io.LimitedReader{R: c, N: 2}
	_, err = k.Conn(other).(*tcpConn).ReadFrom(limited)
	require.NoError(t, err)
	require.Zero(t, limited.N)
	require.Zero(t, running())

	require.NoError(t, peer.(interface{ CloseWrite() error }).CloseWrite())
	var rest bytes.Buffer
	_, err = c.WriteTo(writerFunc(func(p []byte) (int, error) {
		require.EqualValues(t, 1, running())
		return rest.Write(p)
	}))
	require.NoError(t, err)
	require.Equal(t, "z", rest.String())
	require.Zero(t, running())
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
