package heartbeat

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A server that has gone acknowledges nothing more, as this one that does not read.
func TestAClientThatIsStuckInWriteLearnsThatItsServerHasGone(t *testing.T) {
	certificates := httptest.NewTLSServer(nil)
	t.Cleanup(certificates.Close)
	trust := &tls.Config{RootCAs: certificates.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs, ServerName: "example.com"}
	for name, opts := range map[string]Options{
		"none": {Answer: AnswerNone},
		"read": {Answer: AnswerRead},
		"ack":  {Answer: AnswerAck},
		"tls":  {Answer: AnswerRead},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			defer ln.Close()
			conn := dial(t, ln.Addr())
			there, err := ln.Accept()
			require.NoError(t, err)
			defer there.Close()
			if name == "tls" {
				server := tls.Server(there, &tls.Config{Certificates: certificates.TLS.Certificates})
				shaken := make(chan error, 1)
				go func() { shaken <- server.Handshake() }()
				secure := tls.Client(conn, trust)
				require.NoError(t, secure.Handshake())
				require.NoError(t, <-shaken)
				conn = secure
			}
			require.NoError(t, conn.SetWriteDeadline(time.Now().Add(eternal)))
			opts.Timeout, opts.Message = 300*ms, []byte("PING\n")
			c, err := newBeater(t, Config{Tick: 10 * ms}).Start(conn, opts)
			require.NoError(t, err)
			begin := time.Now()
			_, err = c.Write(make([]byte, 64<<20))
			require.ErrorIs(t, err, ErrNoAnswer)
			require.GreaterOrEqual(t, time.Since(begin), opts.Timeout/3)
			<-c.Done()
			require.ErrorIs(t, c.Err(), ErrNoAnswer)
		})
	}
}

// The server reads a long message slowly: it takes some timeouts. The last of it waits in the
// sockets when Write has returned, and the beats wait behind that.
func TestASlowServerThatGoesOnAcknowledgingLives(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	conn := dial(t, ln.Addr())
	there, err := ln.Accept()
	require.NoError(t, err)
	defer there.Close()

	const size, steps = 8 << 20, 300
	read := make(chan error, 1)
	go func() {
		for range steps {
			time.Sleep(2 * timeout / steps)
			if _, err := io.CopyN(io.Discard, there, size/steps); err != nil {
				read <- err
				return
			}
		}
		read <- nil
		for lines := bufio.NewScanner(there); lines.Scan(); {
			if strings.HasSuffix(lines.Text(), "PING") {
				_, _ = io.WriteString(there, "PONG\n")
			}
		}
	}()
	b := newBeater(t, Config{Tick: 10 * ms})
	c, err := b.Start(conn, Options{Timeout: timeout, Message: []byte("PING\n"), Answer: AnswerAck})
	require.NoError(t, err)
	ended := reader(c)
	_, err = c.Write(make([]byte, size-size%steps))
	require.NoError(t, err)
	require.NoError(t, <-read)
	require.Eventually(t, func() bool { return c.RoundTrip() > 0 || c.Err() != nil }, eternal, ms)
	require.NoError(t, c.Err())
	require.NoError(t, c.Close())
	<-ended
}
