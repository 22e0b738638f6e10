package zookeeper_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/members/zookeeper"
)

// fake is a server's end of a connection.
type fake struct {
	t *testing.T
	net.Conn
}

// read reads a request, and returns its content.
func (f fake) read() []byte {
	size := make([]byte, 4)
	_, err := io.ReadFull(f, size)
	require.NoError(f.t, err)
	request := make([]byte, binary.BigEndian.Uint32(size))
	_, err = io.ReadFull(f, request)
	require.NoError(f.t, err)
	return request
}

// write writes a packet of numbers and zeros, one byte at a time.
func (f fake) write(size int, numbers ...any) {
	packet := binary.BigEndian.AppendUint32(nil, uint32(size))
	for _, number := range numbers {
		packet, _ = binary.Append(packet, binary.BigEndian, number)
	}
	packet = append(packet, make([]byte, 4+size-len(packet))...)
	for i := range packet {
		_, err := f.Write(packet[i : i+1])
		require.NoError(f.t, err)
	}
}

// greet reads the first request, with the number of the last change and a session, and answers with a session.
func (f fake) greet(zxid, session, answer uint64) {
	request := f.read()
	require.Equal(f.t, zxid, binary.BigEndian.Uint64(request[4:]), "the last change seen")
	require.Equal(f.t, session, binary.BigEndian.Uint64(request[16:]))
	f.write(36, uint32(0), uint32(60_000), answer, uint32(16))
}

// A server tells of a change before a new connection only if it is later than the number that comes with the watches.
// Among answers of the new connection, go-zookeeper reads its own number without a lock.
func TestWatchesComeWithTheLastChangeOfTheConnectionBefore(t *testing.T) {
	servers := make(chan fake)
	conn, _, err := zk.Connect(slices.Repeat([]string{"127.0.0.1"}, 20), long, zk.WithLogInfo(false), zk.WithDialer(zookeeper.Dialer(
		func(context.Context, string, string) (net.Conn, error) {
			client, server := net.Pipe()
			select {
			case servers <- fake{t, server}:
				return client, nil
			case <-t.Context().Done():
				return nil, net.ErrClosed
			}
		})))
	require.NoError(t, err)
	t.Cleanup(conn.Close)

	// inside returns a field of go-zookeeper.
	inside := func(name string) reflect.Value { return reflect.ValueOf(conn).Elem().FieldByName(name) }
	watch := func() <-chan error {
		watched := make(chan error, 1)
		go func() {
			_, _, _, err := conn.GetW("/a")
			watched <- err
		}()
		return watched
	}
	answer := func(server fake, zxid uint64, watched <-chan error) {
		server.write(16+4+68, binary.BigEndian.Uint32(server.read()), zxid)
		require.NoError(t, <-watched)
	}

	first := <-servers
	first.greet(0, 0, 7)
	answer(first, 5, watch())
	first.write(16, int32(-2), uint64(98))                   // a ping
	first.write(16+4+4+4+2, int32(-1), int64(-1), uint32(0), // an event
		uint32(3), uint32(3), uint32(2), []byte("/b"))
	answer(first, 6, watch())
	require.Zero(t, inside("lastZxid").Int(), "go-zookeeper knows no number")
	first.Close()

	require.Eventually(t, func() bool { return conn.State() == zk.StateConnecting }, eternal, time.Millisecond)
	waiting := watch()
	require.Eventually(t, func() bool { return inside("sendChan").Len() > 0 }, eternal, time.Millisecond)
	second := <-servers
	second.greet(6, 7, 7)
	answer(second, 8, waiting)
	watches := second.read()
	require.Equal(t, uint32(101), binary.BigEndian.Uint32(watches[4:]))
	require.Equal(t, uint64(6), binary.BigEndian.Uint64(watches[8:]))
	second.write(16, binary.BigEndian.Uint32(watches), uint64(9))
	second.Close()

	third := <-servers
	third.greet(9, 7, 0) // the session has ended
	fourth := <-servers
	fourth.greet(0, 0, 9)
	answer(fourth, 3, watch())
	fourth.Close()
	fifth := <-servers
	fifth.greet(3, 9, 9)
	fifth.Close()
}
