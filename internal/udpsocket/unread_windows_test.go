package udpsocket

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/windows"
)

// bound returns a socket and its address. Wine has no sockets of UDP for package net.
func bound(t *testing.T) (fd windows.Handle, own windows.Sockaddr) {
	var data windows.WSAData
	require.NoError(t, windows.WSAStartup(0x202, &data))
	fd, err := windows.Socket(windows.AF_INET, windows.SOCK_DGRAM, windows.IPPROTO_UDP)
	require.NoError(t, err)
	t.Cleanup(func() { _ = windows.Closesocket(fd) })
	require.NoError(t, windows.Bind(fd, &windows.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	own, err = windows.Getsockname(fd)
	require.NoError(t, err)
	return fd, own
}

func TestASocketTellsWhetherADatagramWaits(t *testing.T) {
	fd, own := bound(t)
	unread := func() int { return Unread(uintptr(fd)) }
	require.Zero(t, unread())
	for range 2 { // an empty datagram is one, too
		require.NoError(t, windows.WSASendto(fd, &windows.WSABuf{}, 1, new(uint32), 0, own, nil, nil))
	}
	require.Eventually(t, func() bool { return unread() == Plenty }, time.Minute, time.Millisecond)
	var flags uint32
	for range 2 {
		require.Equal(t, Plenty, unread())
		buf := windows.WSABuf{Len: 1, Buf: new(byte)}
		require.NoError(t, windows.WSARecv(fd, &buf, 1, new(uint32), &flags, nil, nil))
	}
	require.Zero(t, unread())
}

func TestADatagramLongerThanItsBufferIsTold(t *testing.T) {
	fd, own := bound(t)
	require.NoError(t, windows.WSASendto(fd, &windows.WSABuf{Len: 2, Buf: &[]byte("hi")[0]}, 1, new(uint32), 0, own, nil, nil))
	var flags uint32
	buf := windows.WSABuf{Len: 1, Buf: new(byte)}
	require.True(t, IsTooLong(windows.WSARecv(fd, &buf, 1, new(uint32), &flags, nil, nil)))
	require.False(t, IsTooLong(windows.WSAECONNRESET))
}
