package httpcall

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/net/dns/dnsmessage"

	"github.com/heartwheel-go/heartwheel/timeout"
)

func TestWhatIsNoTargetIsRefusedWhenItIsSet(t *testing.T) {
	c := open(t, Config{})
	for _, good := range []string{
		"http://example.com", "https://example.com:8443/a?b=c", "HTTPS://EXAMPLE.com./", "http://user:pass@example.com/",
		"http://8.8.8.8/", "http://[2606:4700::1111]:80/", "http://[::ffff:8.8.8.8]/", "http://[64:ff9b::8.8.8.8]/", "http://my_host/", "http://xn--bcher-kva.example/", "http://1.2.example/", "http://0xyz/",
	} {
		require.NoError(t, c.Check(to(good)), good)
	}
	for _, bad := range []string{
		"/path", "//example.com/", "example.com", "http:", "http://", "http:example.com", "http:///x", "http://:80/",
		"ftp://example.com", "file:///etc/passwd", "gopher://example.com/_x", "unix:///run/x.sock", "javascript:x", "http+unix://x/",
		"http://example.com:0/", "http://example.com:65536/", "http://example.com:x/", "http://exa mple.com/", "http://a..b/", "http://bücher.example/", "http://１２７.0.0.1/",
		"http://exa\x00mple.com/", "http://example.com/\r\nHost: x", "http://example.com\t/", "http://[::1/", "http://[1.2.3.4]x/", "http://a*b/", "http://a,b/",
		"http://2130706433/", "http://0177.0.0.1/", "http://0x7f.1/", "http://0x7f000001/", "http://127.1/", "http://1.2.3.4.5/", "http://256.1.1.1/", "http://0x/", "http://example.0x7F",
		"http://" + strings.Repeat("a.", 127) + "b/",
	} {
		err := c.Check(to(bad))
		require.ErrorIs(t, err, timeout.ErrArgument, bad)
		require.NotErrorIs(t, err, ErrRefused, bad)
	}
	for what, bad := range map[string][]string{
		"loopback": {
			"http://127.0.0.1/", "http://127.8.9.10:99/", "http://[::1]/", "http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", "http://127.0.0.1./",
			"http://user@127.0.0.1/", "http://example.com@127.0.0.1/", "http://localhost/", "http://LOCALHOST./", "http://a.localhost/", "http://[64:ff9b::127.0.0.1]/",
		},
		"link-local":  {"http://169.254.169.254/latest", "http://[fe80::1]/", "http://[fe80::1%25eth0]/", "http://[::ffff:169.254.169.254]/"},
		"unspecified": {"http://0.0.0.0/", "http://0.1.2.3/", "http://[::]/", "http://[::ffff:0:0]/"},
		"multicast":   {"http://224.0.0.1/", "http://[ff02::1]/"},
		"private":     {"http://10.0.0.1/", "http://172.31.0.1/", "http://192.168.1.1/", "http://100.64.0.1/", "http://[fd12::1]/", "http://[64:ff9b::10.0.0.1]/"},
		"cloud metadata": {
			"http://[fd00:ec2::254]/", "http://[fd00:ec2::23]/", "http://100.100.100.200/", "http://[fd00:100::100:200]/", "http://168.63.129.16/",
			"http://192.0.0.192/", "http://[fd00:c1::a9fe:a9fe]/", "http://[fd20:ce::254]/", "http://[fd00:a9fe:a9fe::1]/", "http://[fd00:42::42]/",
		},
		"reserved":      {"http://255.255.255.255/", "http://240.0.0.1/", "http://198.18.0.1/", "http://[2001::1]/", "http://[64:ff9b:1::1]/"},
		"of a tunnel":   {"http://[2002:7f00:1::]/"},
		"not global":    {"http://[::127.0.0.1]/", "http://[fec0::1]/", "http://[100::1]/"},
		"documentation": {"http://192.0.2.1/", "http://[2001:db8::1]/"},
	} {
		for _, target := range bad {
			err := c.Check(to(target))
			require.ErrorIs(t, err, timeout.ErrArgument, target)
			require.ErrorIs(t, err, ErrRefused, target)
			require.ErrorContains(t, err, what, target)
			require.ErrorIs(t, c.Call(t.Context(), task, to(target)), timeout.ErrPermanent, target)
		}
	}
}

func TestWhatIsAllowedCanBeCalledAndNothingElse(t *testing.T) {
	c := open(t, Config{AllowPrivate: true, Allow: here[:1]})
	for target, allowed := range map[string]bool{
		"http://10.0.0.1/": true, "http://[fd12::1]/": true, "http://127.0.0.1/": true, "http://[::ffff:127.0.0.1]/": true, "http://localhost/": true,
		"http://[::1]/": false, "http://169.254.1.1/": false, "http://[fd00:ec2::254]/": false, "http://100.100.100.200/": false,
		"http://[fd00:ec2::23]/": false, "http://[fd20:ce::254]/": false, "http://[fd00:c1::a9fe:a9fe]/": false, "http://[fd00:42::42]/": false,
		"http://[fd00:a9fe:a9fe::1]/": false, "http://[fd00:100::100:200]/": false,
	} {
		require.Equal(t, allowed, c.Check(to(target)) == nil, target)
	}
	c = open(t, Config{Hosts: []string{"Api.example.com", "*.hooks.example.com", "8.8.8.8"}})
	for target, allowed := range map[string]bool{
		"http://api.example.com:8080/": true, "http://API.example.com./": true, "http://a.b.hooks.example.com/": true, "http://8.8.8.8/": true,
		"http://example.com/": false, "http://hooks.example.com/": false, "http://xhooks.example.com/": false, "http://.hooks.example.com/": false, "http://8.8.4.4/": false, "http://api.example.com.evil.com/": false,
	} {
		require.Equal(t, allowed, c.Check(to(target)) == nil, target)
	}
	require.ErrorIs(t, open(t, Config{Hosts: []string{}}).Check(to("http://example.com/")), ErrRefused)
	require.ErrorIs(t, open(t, Config{Hosts: []string{"localhost"}}).Check(to("http://localhost/")), ErrRefused, "its address is not allowed")
}

func TestAMethodOrHeaderThatCantBeIsRefusedWhenItIsSet(t *testing.T) {
	c := open(t, Config{})
	for _, method := range []string{"", "GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"} {
		call := to("http://example.com")
		call.Method = method
		require.NoError(t, c.Check(call))
	}
	for _, method := range []string{"get", "CONNECT", "TRACE", "OPTIONS", "POST / HTTP/1.1\r\nX: y"} {
		call := to("http://example.com")
		call.Method = method
		require.ErrorIs(t, c.Check(call), timeout.ErrArgument)
	}
	for _, header := range []map[string]string{
		{"Host": "x"},
		{"host": "x"},
		{"Connection": "close"},
		{"transfer-encoding": "chunked"},
		{"Content-Length": "1"},
		{"TE": "x"},
		{"Upgrade": "h2c"},
		{"Keep-Alive": "x"},
		{"Trailer": "x"},
		{"Proxy-Authorization": "x"},
		{"Proxy-Connection": "x"},
		{"Expect": "100-continue"},
		{"Idempotency-Key": "x"},
		{"x-idempotency-key": "x"},
		{"heartwheel-attempt": "1"},
		{"HEARTWHEEL-X": "1"},
		{"webhook-signature": "x"},
		{"Webhook-X": "x"},
		{"A": "b\r\nC: d"},
		{"A": "b\nC: d"},
		{"A": "\x00"},
		{"A\r\nB": "c"},
		{"A:": "b"},
		{"": "b"},
		{"A B": "c"},
		{" Host": "x"},
		{"Ä": "b"},
		{"X-A": "1", "x-a": "2"},
	} {
		call := to("http://example.com")
		call.Header = header
		require.ErrorIs(t, c.Check(call), timeout.ErrArgument, "%q", header)
	}
	call := to("http://example.com")
	call.Header = map[string]string{"authorization": "Bearer x", "X-A": "ü\t1", "Cookie": "a=b", "user-agent": "me"}
	require.NoError(t, c.Check(call))
	call.Kind = "nats"
	require.ErrorIs(t, c.Check(call), timeout.ErrArgument)
}

func TestACircuitIsSchemeHostAndPort(t *testing.T) {
	c := open(t, Config{})
	for target, want := range map[string]string{
		"http://Example.com./a?b": "http://example.com:80", "http://example.com:80": "http://example.com:80", "https://example.com": "https://example.com:443",
		"https://u:p@example.com:8443/": "https://example.com:8443", "http://[::1]:8080/": "http://[::1]:8080", "http://[::1]": "http://[::1]:80",
		"::": "http", "ftp://x": "http",
	} {
		require.Equal(t, want, c.Circuit(to(target)))
	}
}

// resolve has the caller ask a server of names. It gives answer's address for each name.
func resolve(t *testing.T, c *Caller, answer func() netip.Addr) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	t.Cleanup(func() { conn.Close(); <-done })
	go func() {
		defer close(done)
		buf := make([]byte, 4096)
		for {
			n, from, err := conn.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil || len(m.Questions) == 0 {
				continue
			}
			m.Response, m.Additionals = true, nil
			q := m.Questions[0]
			head := dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class}
			switch ip := answer(); {
			case q.Type == dnsmessage.TypeA && ip.Is4():
				m.Answers = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.AResource{A: ip.As4()}}}
			case q.Type == dnsmessage.TypeAAAA && ip.Is6():
				m.Answers = []dnsmessage.Resource{{Header: head, Body: &dnsmessage.AAAAResource{AAAA: ip.As16()}}}
			}
			packed, _ := m.Pack()
			conn.WriteTo(packed, from)
		}
	}()
	c.dialer.Resolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

func TestANameThatLeadsInsideIsNotCalled(t *testing.T) {
	var hits atomic.Int32
	server := serve(t, func(http.ResponseWriter, *http.Request) { hits.Add(1) })
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	var ip atomic.Pointer[netip.Addr]
	target := to("http://rebind.example.com:" + port + "/")

	c := open(t, Config{})
	resolve(t, c, func() netip.Addr { return *ip.Load() })
	require.NoError(t, c.Check(target))
	for _, inside := range []string{"127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254", "0.0.0.0", "10.0.0.1", "64:ff9b::7f00:1"} {
		addr := netip.MustParseAddr(inside)
		ip.Store(&addr)
		err := c.Call(t.Context(), task, target)
		require.ErrorIs(t, err, ErrRefused, inside)
		require.ErrorIs(t, err, timeout.ErrPermanent)
	}
	require.Zero(t, hits.Load())

	// The same name is called if its address is allowed: nothing else refused it.
	c = open(t, Config{Allow: here})
	resolve(t, c, func() netip.Addr { return *ip.Load() })
	addr := netip.MustParseAddr("127.0.0.1")
	ip.Store(&addr)
	require.NoError(t, c.Call(t.Context(), task, target))
	require.EqualValues(t, 1, hits.Load())
}

func TestProxiesAreNotUsedUnlessTheyAreAskedFor(t *testing.T) {
	var through atomic.Int32
	proxy := serve(t, func(http.ResponseWriter, *http.Request) { through.Add(1) })
	at, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	t.Setenv("HTTP_PROXY", proxy.URL)
	server := serve(t, func(http.ResponseWriter, *http.Request) {})
	require.NoError(t, open(t, Config{Allow: here}).Call(t.Context(), task, to(server.URL)))
	require.Zero(t, through.Load())

	use := Config{Proxy: http.ProxyURL(at)}
	require.ErrorIs(t, open(t, use).Call(t.Context(), task, to("http://example.com/")), ErrRefused, "the proxy's address is not allowed")
	use.Allow = here
	require.NoError(t, open(t, use).Call(t.Context(), task, to("http://example.com/")))
	require.EqualValues(t, 1, through.Load())
}

func FuzzTarget(f *testing.F) {
	for _, seed := range []string{"http://example.com/", "http://0x7f.1/", "https://[::ffff:127.0.0.1]:1/", "http://a@b@127.0.0.1:80/", "http://169.254.169.254#@x", "http://%31%32%37.0.0.1/"} {
		f.Add(seed)
	}
	c, err := New(Config{})
	require.NoError(f, err)
	f.Fuzz(func(t *testing.T, target string) {
		circuit := c.Circuit(to(target))
		if err := c.Check(to(target)); err != nil {
			require.ErrorIs(t, err, timeout.ErrArgument)
			return
		}
		// Check lets only names and allowed addresses through.
		back, err := url.Parse(circuit)
		require.NoError(t, err)
		require.Equal(t, circuit, c.Circuit(to(circuit)))
		require.NoError(t, c.Check(to(circuit)))
		ips := net.ParseIP(back.Hostname())
		if ip, ok := netip.AddrFromSlice(ips); ok {
			require.NoError(t, c.guard.check(ip))
			require.False(t, ips.IsLoopback() || ips.IsPrivate() || ips.IsLinkLocalUnicast() || ips.IsMulticast() || ips.IsUnspecified())
		}
		require.Equal(t, strings.ToLower(back.Host), back.Host)
	})
}
