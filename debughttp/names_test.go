package debughttp

import (
	"net"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

func TestHiddenAddressesAppearNowhere(t *testing.T) {
	k := newKeeper(t, keepalive.Config{})
	h := newHandler(t, k, Config{HideAddrs: true})
	first := &net.TCPAddr{IP: net.ParseIP("203.0.113.77"), Port: 54321}
	second := &net.TCPAddr{IP: net.ParseIP("203.0.113.77"), Port: 12345}
	other := &net.TCPAddr{IP: net.ParseIP("2001:db8::77"), Port: 54321}
	for _, from := range []net.Addr{first, other, addr("203.0.113.99"), addr("panic"), addr("")} {
		c, _ := connect(t, k, from)
		require.NoError(t, c.Close())
		connect(t, k, from)
	}
	connect(t, k, second)

	body := ask(h, from(local, "localhost")).Body.String()
	page := from(local, "localhost")
	page.URL.RawQuery = ""
	for _, secret := range []string{"203.0.113", "2001:db8", "54321", "12345"} {
		require.NotContains(t, body, secret)
		require.NotContains(t, ask(h, page).Body.String(), secret)
	}
	s := see(t, h)
	require.True(t, s.AddrsHidden)
	of := map[string]int{}
	for _, idle := range s.Idlest {
		of[idle.Addr]++
	}
	require.Equal(t, 2, of[h.names.of(first)], "a host can be followed, whatever its port: %v", of)
	require.Equal(t, 2, of[""])
	require.Len(t, of, 4)

	again := newHandler(t, k, Config{HideAddrs: true})
	require.NotEqual(t, h.names.of(first), again.names.of(first), "the key is random")
}

func TestAddressesHaveNoSayInHowThePageLooks(t *testing.T) {
	k := newKeeper(t, keepalive.Config{})
	h := newHandler(t, k, Config{})
	for _, evil := range []string{
		`</script><script>alert(1)</script>`, "\u202egnp.exe", "a\x00b\x1b[31m\n", "\xff\xfe",
		strings.Repeat("x", 1<<20), strings.Repeat("\U0001f600", 200), "panic",
	} {
		c, _ := connect(t, k, addr(evil))
		require.NoError(t, c.Close())
	}
	body := ask(h, from(local, "localhost")).Body.String()
	require.NotContains(t, body, "<script>", "also for who sniffs")
	require.Less(t, len(body), 50_000)
	for _, end := range see(t, h).Recent {
		require.True(t, utf8.ValidString(end.Addr))
		require.LessOrEqual(t, utf8.RuneCountInString(end.Addr), maxName+1)
		for _, r := range end.Addr {
			require.True(t, unicode.IsGraphic(r), "%q", end.Addr)
		}
	}
}

func FuzzNamesArePrintableAndShort(f *testing.F) {
	f.Add("192.0.2.1:80")
	f.Add("\u202e\xff")
	f.Fuzz(func(t *testing.T, text string) {
		name := names{}.of(addr(text))
		if !utf8.ValidString(name) || utf8.RuneCountInString(name) > maxName+1 {
			t.Errorf("%q of %q", name, text)
		}
		for _, r := range name {
			if !unicode.IsGraphic(r) {
				t.Errorf("%q of %q", name, text)
			}
		}
	})
}
