package wskeepalive

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// head is one frame's header.
func head(first byte, length int, masked bool) []byte {
	h := []byte{first, byte(length)}
	switch {
	case length > 0xffff:
		h = binary.BigEndian.AppendUint64([]byte{first, 127}, uint64(length))
	case length > 125:
		h = binary.BigEndian.AppendUint16([]byte{first, 126}, uint16(length))
	}
	if masked {
		h[1] |= bitMask
		h = append(h, "mask"...)
	}
	return h
}

// ends returns what has ended in a stream, cut at random places: the first bytes of heads and frames.
func ends(f *frames, stream []byte) (first string) {
	for len(stream) > 0 {
		piece := stream[:1+rand.N(len(stream))]
		stream = stream[len(piece):]
		for len(piece) > 0 {
			n, ended := f.take(piece)
			if piece = piece[n:]; ended {
				first += string(f.first)
			}
		}
	}
	return first
}

func TestFramesEndWhereTheyEnd(t *testing.T) {
	for range 200 {
		var stream []byte
		var want string
		if rand.N(2) == 0 {
			stream, want = append(stream, "HTTP/1.1 101 Switching Protocols\r\nA: \r\r\n\n\r\r\nB: c\r\n\r\n"...), "H"
			if rand.N(2) == 0 {
				stream, want = append(stream[:0], "GET / HTTP/1.1\r\n\r\n"...), "G"
			}
		}
		for range rand.N(6) {
			first := byte(rand.N(256))
			if len(stream) == 0 && (first == request || first == response) {
				continue
			}
			length := []int{0, 1, 125, 126, 127, 200, 0xffff, 0x10000, 3}[rand.N(9)]
			stream = append(stream, head(first, length, rand.N(2) == 0)...)
			stream = append(stream, bytes.Repeat([]byte{byte(rand.N(256))}, length)...)
			want += string(first)
		}
		f := new(frames)
		require.Equal(t, want, ends(f, stream))
		require.Equal(t, want != "", f.between())
	}
}

// What is no WebSocket has no frames.
func TestStreamsWithoutFrames(t *testing.T) {
	for _, stream := range []string{
		"HTTP/1.1 401 Unauthorized\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\x8a\x00\x8a\x00",
		"HTTP/1.1 1010 \r\n",
		"GET / HTTP/1.1\r\n" + strings.Repeat("x", 10_000),
		"\x82\xff\xff\xff\xff\xff\xff\xff\xff\xff" + strings.Repeat("x", 10_000), // the longest one
		"\x82\xff\x80\x00\x00\x00\x00\x00\x00\x00"[:9],
		"\x8a",
	} {
		f := new(frames)
		require.Empty(t, ends(f, []byte(stream)), "%.40q", stream)
		require.False(t, f.between(), "%.40q", stream)
	}
}
