package nbhttpkeepalive

import (
	"bufio"
	"context"
	stdtls "crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/lesismal/llib/std/crypto/tls"
	"github.com/lesismal/nbio/nbhttp"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/certtest"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/nbiokeepalive/internal/looptest"
	"github.com/heartwheel-go/heartwheel/keepalive/proxyprotocol"
)

// The header comes before TLS, and a request has the address of the client.
func TestClientsBehindAProxy(t *testing.T) {
	cert, _ := certtest.New(t)
	own := tls.Certificate{Certificate: cert.Certificate, PrivateKey: cert.PrivateKey}
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("tls=%v", secure), func(t *testing.T) {
			k, err := keepalive.New(keepalive.Config{Timeout: eternal, Room: keepalive.Room{MaxPerKey: 1}})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, k.Close()) })
			config := nbhttp.Config{Network: "tcp", Addrs: []string{"127.0.0.1:0"}, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, r.RemoteAddr)
			})}
			if secure {
				config.AddrsTLS, config.Addrs, config.TLSConfig = config.Addrs, nil, &tls.Config{Certificates: []tls.Certificate{own}}
			}
			cfg := proxyprotocol.Config{Trusted: []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32")}}
			engine := nbhttp.NewEngine(config)
			_, err = WrapProxied(engine, k, proxyprotocol.Config{})
			require.ErrorIs(t, err, keepalive.ErrArgument)
			e, err := WrapProxied(engine, k, cfg)
			require.NoError(t, err)
			closed := make(chan error, 9)
			e.OnClose(func(_ net.Conn, err error) { closed <- err })
			require.NoError(t, e.Start())
			looptest.Await(t)
			defer func() {
				ctx, cancel := context.WithTimeout(context.Background(), eternal)
				defer cancel()
				require.NoError(t, e.Shutdown(ctx))
			}()
			ask := func(client string) (string, error) {
				c, err := net.Dial("tcp", append(e.Addrs, e.AddrsTLS...)[0])
				require.NoError(t, err)
				t.Cleanup(func() { c.Close() })
				require.NoError(t, c.SetDeadline(time.Now().Add(eternal)))
				for _, b := range []byte("PROXY TCP4 " + client + " 192.0.2.9 1111 80\r\n") {
					_, err = c.Write([]byte{b})
					require.NoError(t, err)
				}
				if secure {
					c = stdtls.Client(c, &stdtls.Config{InsecureSkipVerify: true}) //nolint:gosec // not what is tested
				}
				if _, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
					return "", err
				}
				res, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					return "", err
				}
				defer res.Body.Close()
				body, err := io.ReadAll(res.Body)
				return string(body), err
			}
			for _, client := range []string{"192.0.2.1", "192.0.2.2"} {
				who, err := ask(client)
				require.NoError(t, err)
				require.Equal(t, client+":1111", who)
			}
			_, err = ask("192.0.2.1")
			require.Error(t, err)
			require.ErrorIs(t, receive(t, closed), keepalive.ReasonFull)
			require.Equal(t, 2, k.Len())
		})
	}
}
