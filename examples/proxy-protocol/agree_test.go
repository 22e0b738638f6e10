package main

import (
	"bufio"
	"bytes"
	"net"
	"strings"
	"testing"

	"github.com/pires/go-proxyproto"
	"github.com/stretchr/testify/require"

	keepaliveproxy "github.com/heartwheel-go/heartwheel/keepalive/proxyprotocol"
)

// The parser for event loops and the library for net agree on each header: whole, in pieces, or wrong.
func FuzzHeaders(f *testing.F) {
	unix := &net.UnixAddr{Net: "unix", Name: "/run/client"}
	for _, ends := range [][2]net.Addr{{alice, bob}, {&net.TCPAddr{IP: net.IPv6loopback, Port: 1}, alice}, {unix, unix}, {nil, nil}} {
		for _, version := range []byte{1, 2} {
			h := proxyproto.HeaderProxyFromAddrs(version, ends[0], ends[1])
			require.NoError(f, h.SetTLVs([]proxyproto.TLV{{Type: proxyproto.PP2_TYPE_AUTHORITY, Value: []byte("example.org")}}))
			b, err := h.Format()
			require.NoError(f, err)
			f.Add(append(b, "GET /"...))
			f.Add(b[:len(b)-3])
		}
	}
	for _, text := range []string{
		"PROXY TCP4 192.0.2.1 192.0.2.2 01 80\r\n", "PROXY TCP6 fe80::1%x ::1 1 80\r\n", "PROXYjunk\r\n", "PROXY UNKNOWN x\n", "GET /",
		"PROXY UNKNOWN " + strings.Repeat("x", 91) + "\r\n",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		h, whole, err := keepaliveproxy.Parse(b)
		r := bufio.NewReaderSize(bytes.NewReader(b), 2*len(b)+16)
		want, wantErr := proxyproto.Read(r)
		switch {
		case wantErr == nil:
			require.NoError(t, err)
			require.True(t, whole)
			require.Equal(t, len(b)-r.Buffered(), h.Size)
			if want.Command.IsLocal() {
				require.Nil(t, h.Source)
			} else {
				require.Equal(t, portOf(want.SourceAddr), portOf(h.Source))
			}
		case whole: // the library refuses a client without an address, and the specification leaves that to us
			require.Equal(t, byte(0x21), b[12], "%v", wantErr)
			require.Zero(t, b[13])
			require.Nil(t, h.Source)
		}
		for n := range min(len(b), 200) { // no piece says anything else
			piece, wholePiece, errPiece := keepaliveproxy.Parse(b[:n])
			switch {
			case errPiece != nil:
				require.Error(t, err)
			case wholePiece:
				require.True(t, whole)
				require.Equal(t, h, piece)
			}
		}
	})
}

// portOf is an address without the network, which is TCP for an event loop.
func portOf(addr net.Addr) string {
	if addr == nil {
		return ""
	}
	return addr.String()
}
