package proxyprotocol

import (
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	sig     = "\r\n\r\n\x00\r\nQUIT\n"
	inet    = "\xc0\x00\x02\x01\xc0\x00\x02\x09\x04\x57\x00\x50"
	localV6 = "\x20\x01\x0d\xb8\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x0b"
	inet6   = localV6 + localV6 + "\x08\xae\x00\x50"
)

var wholeHeaders = map[string]string{ // and their sources
	"PROXY TCP4 192.0.2.1 192.0.2.9 1111 80\r\n":                         "192.0.2.1:1111",
	"PROXY TCP4 255.255.255.255 0.0.0.0 65535 0\r\n":                     "255.255.255.255:65535",
	"PROXY TCP6 2001:db8::b ::1 2222 80\r\n":                             "[2001:db8::b]:2222",
	"PROXY TCP6 ::ffff:192.0.2.1 ::1 2222 80\r\n":                        "192.0.2.1:2222",
	"PROXY UNKNOWN\r\n":                                                  "",
	"PROXY UNKNOWN ffff::ffff ffff::ffff 65535 65535 and all else\r\r\n": "",
	sig + "\x21\x11\x00\x0c" + inet:                                      "192.0.2.1:1111",
	sig + "\x21\x12\x00\x0f" + inet + "TLV":                              "192.0.2.1:1111",
	sig + "\x21\x21\x00\x24" + inet6:                                     "[2001:db8::b]:2222",
	sig + "\x21\x31\x00\xd8/run/client" + strings.Repeat("\x00", 205):    "/run/client",
	sig + "\x21\x00\x00\x00":                                             "",
	sig + "\x21\x00\x00\x03TLV":                                          "",
	sig + "\x20\x00\x00\x00":                                             "",
	sig + "\x20\x11\x00\x0c" + inet:                                      "",
	sig + "\x20\x11\x00\x01x":                                            "",
	sig + "\x20\x00\x10\x00" + strings.Repeat("x", maxRest):              "",
}

func TestWholeHeaders(t *testing.T) {
	for header, source := range wholeHeaders {
		for _, rest := range []string{"", "GET /", header} {
			h, whole, err := Parse([]byte(header + rest))
			require.NoError(t, err, "%q", header)
			require.True(t, whole)
			require.Equal(t, len(header), h.Size)
			require.LessOrEqual(t, h.Size, MaxSize)
			if source == "" {
				require.Nil(t, h.Source)
			} else {
				require.Equal(t, source, h.Source.String())
			}
		}
	}
}

func TestPartsOfHeaders(t *testing.T) {
	for header := range wholeHeaders {
		for n := range len(header) {
			h, whole, err := Parse([]byte(header[:n]))
			require.NoError(t, err, "%q", header[:n])
			require.False(t, whole)
			require.Zero(t, h)
		}
	}
}

func TestWrongHeaders(t *testing.T) {
	optional := newHeaders(t, Config{Trusted: []netip.Prefix{netip.MustParsePrefix("::/0")}, Optional: true})
	for _, tt := range []struct {
		says string
		want error
		text string
	}{
		{"GET / HTTP/1.1\r\n\r\n", ErrNoHeader, `proxyprotocol: no header: it begins with "GET / HTTP/1.1\r\n"`},
		{"PROXYTCP4", ErrNoHeader, ""},
		{"proxy TCP4", ErrNoHeader, ""},
		{"\r\n\r\n\x00\r\nQUIT ", ErrNoHeader, ""},
		{"\x00", ErrNoHeader, ""},
		{"PROXY \r\n", ErrHeader, `must be UNKNOWN, or TCP4 or TCP6 with two addresses and two ports`},
		{"PROXY TCP4\r\n", ErrHeader, ""},
		{"PROXY TCP4 192.0.2.1 192.0.2.9 1111 80\n", ErrHeader, "does not end with CR LF"},
		{"PROXY TCP4 192.0.2.1 192.0.2.9 1111 80 \r\n", ErrHeader, ""},
		{"PROXY TCP4  192.0.2.1 192.0.2.9 1111\r\n", ErrHeader, ""},
		{"PROXY TCP4 192.0.2.01 192.0.2.9 1111 80\r\n", ErrHeader, `address "192.0.2.01" is none of TCP4`},
		{"PROXY TCP4 ::1 192.0.2.9 1111 80\r\n", ErrHeader, ""},
		{"PROXY TCP4 192.0.2.1 example.org 1111 80\r\n", ErrHeader, `address "example.org" is none of TCP4`},
		{"PROXY TCP6 192.0.2.1 ::1 1111 80\r\n", ErrHeader, ""},
		{"PROXY TCP6 fe80::1%eth0 ::1 1111 80\r\n", ErrHeader, ""},
		{"PROXY TCP4 192.0.2.1 192.0.2.9 65536 80\r\n", ErrHeader, `port "65536", must be a number from 0 to 65535`},
		{"PROXY TCP4 192.0.2.1 192.0.2.9 1111 080\r\n", ErrHeader, `port "080"`},
		{"PROXY TCP4 192.0.2.1 192.0.2.9 +1 80\r\n", ErrHeader, ""},
		{"PROXY UDP4 192.0.2.1 192.0.2.9 1111 80\r\n", ErrHeader, ""},
		{"PROXY UNKNOWN " + strings.Repeat("x", 94), ErrHeader, "a line of more than 107 bytes"},
		{sig + "\x11\x11\x00\x0c", ErrHeader, "version and command 0x11, must be 0x20 or 0x21"},
		{sig + "\x22\x11\x00\x0c", ErrHeader, ""},
		{sig + "\x21\x13\x00\x0c", ErrHeader, "family and protocol 0x13 are unknown"},
		{sig + "\x20\x41\x00\x0c", ErrHeader, ""},
		{sig + "\x21\x11\x00\x0b", ErrHeader, "length 11, must be at least 12"},
		{sig + "\x21\x21\x00\x0c", ErrHeader, "length 12, must be at least 36"},
		{sig + "\x21\x11\x10\x01", ErrHeader, "length 4097, must be at most 4096"},
	} {
		h, whole, err := Parse([]byte(tt.says))
		require.ErrorIs(t, err, tt.want, "%q", tt.says)
		require.ErrorContains(t, err, tt.text)
		require.False(t, whole)
		require.Zero(t, h)
		_, whole, err = optional.Parse(&net.TCPAddr{}, []byte(tt.says))
		require.Equal(t, tt.want == ErrNoHeader, whole && err == nil, "%q", tt.says) //nolint:errorlint // the row's
	}
}

func TestParseKeepsNothing(t *testing.T) {
	for header, source := range wholeHeaders {
		b := []byte(header)
		h, _, err := Parse(b)
		require.NoError(t, err)
		clear(b)
		if source != "" {
			require.Equal(t, source, h.Source.String())
		}
	}
}

func newHeaders(t *testing.T, cfg Config) *Headers {
	h, err := NewHeaders(cfg, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return h
}

func TestWhoIsTrusted(t *testing.T) {
	cfg := Config{Trusted: []netip.Prefix{netip.MustParsePrefix("10.1.2.3/8"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("192.0.2.7/32")}}
	require.NoError(t, cfg.Validate())
	require.False(t, cfg.IsZero())
	only := newHeaders(t, cfg)
	cfg.Optional = true
	optional := newHeaders(t, cfg)
	cfg.Trusted[0] = netip.MustParsePrefix("::/0") // they have a copy
	for addr, trusted := range map[string]bool{
		"10.255.0.1:1": true, "[::ffff:10.0.0.1]:1": true, "[fe80::1%eth0]:1": true, "192.0.2.7:1": true,
		"11.0.0.1:1": false, "192.0.2.8:1": false, "[::1]:1": false, "[::a00:1]:1": false,
	} {
		remote := net.TCPAddrFromAddrPort(netip.MustParseAddrPort(addr))
		header, err := only.Expects(remote)
		require.Equal(t, trusted, header, addr)
		require.Equal(t, !trusted, errors.Is(err, ErrUntrusted))
		header, err = optional.Expects(remote)
		require.NoError(t, err)
		require.Equal(t, trusted, header, addr)
		header, err = (*Headers)(nil).Expects(remote)
		require.NoError(t, err)
		require.False(t, header)
	}
	header, err := only.Expects(&net.UnixAddr{})
	require.NoError(t, err)
	require.True(t, header)
	for _, remote := range []net.Addr{nil, (*net.TCPAddr)(nil), &net.TCPAddr{}, &net.UDPAddr{IP: net.IPv4(10, 0, 0, 1)}} {
		_, err := only.Expects(remote)
		require.ErrorIs(t, err, ErrUntrusted)
	}
}

func TestBadConfigs(t *testing.T) {
	require.True(t, Config{}.IsZero())
	for want, cfg := range map[string]Config{
		"Trusted is empty, must have the networks of the proxies":                                    {},
		"Trusted[0] invalid Prefix, must be a network such as 10.0.0.0/8":                            {Trusted: make([]netip.Prefix, 1)},
		"Trusted[0] ::ffff:10.0.0.0/104, must be the IPv4 network itself, without ::ffff: before it": {Trusted: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}},
	} {
		_, err := NewHeaders(cfg, nil)
		require.ErrorIs(t, err, ErrArgument)
		require.EqualError(t, err, "proxyprotocol: invalid argument: "+want)
	}
}
