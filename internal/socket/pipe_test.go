package socket_test

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/socket"
)

// With a version of Go whose net.Pipe is another one, a pipe is not known.
func TestAPipeIsKnownThroughItsLayers(t *testing.T) {
	pipe, other := net.Pipe()
	require.NotNil(t, socket.InnerPipe(pipe, nil))
	require.NotNil(t, socket.InnerPipe(tls.Server(raw{other}, nil), nil))
	require.NotNil(t, socket.InnerPipe(embedded{pipe}, unwrap))
	require.Nil(t, socket.InnerPipe(embedded{pipe}, nil))
	require.Nil(t, socket.InnerPipe(nil, nil))
	require.Nil(t, socket.InnerPipe(raw{(*tls.Conn)(nil)}, nil))
}

func TestALookIntoAPipeTakesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end, peer := net.Pipe()
		p := socket.InnerPipe(end, nil)
		requireWaits := func(want bool) {
			for range 3 {
				synctest.Wait()
				require.Equal(t, want, p.Waits())
			}
		}
		write := func(text string) <-chan error {
			done := make(chan error, 1)
			go func() {
				n, err := io.WriteString(peer, text)
				if err == nil && n != len(text) {
					err = io.ErrShortWrite
				}
				done <- err
			}()
			return done
		}
		requireWaits(false)
		written := write("hello, world")
		requireWaits(true)
		got := make([]byte, 5)
		_, err := io.ReadFull(end, got)
		require.NoError(t, err)
		require.Equal(t, "hello", string(got))
		requireWaits(true)
		got = make([]byte, 7)
		_, err = io.ReadFull(end, got)
		require.NoError(t, err)
		require.Equal(t, ", world", string(got))
		require.NoError(t, <-written)
		requireWaits(false)

		require.NoError(t, end.SetReadDeadline(time.Now()))
		written = write("x")
		requireWaits(true)
		require.NoError(t, peer.SetWriteDeadline(time.Now()))
		require.Error(t, <-written)
		requireWaits(false)
		require.NoError(t, peer.Close())
		requireWaits(false)
		require.NoError(t, end.Close())
		requireWaits(false)
	})
}
