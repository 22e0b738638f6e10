//go:build interop

package debughttp

import (
	"encoding/json"
	"net"
	"net/http/httptest"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// The JSON of real sockets, by a client that nobody here wrote.
func TestCurlListsAndCloses(t *testing.T) {
	k := newKeeper(t, keepalive.Config{})
	h := newHandler(t, k, Config{CloseToken: secret})
	s := httptest.NewServer(h)
	defer s.Close()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	guarded := k.Listener(ln)
	defer guarded.Close()
	clients := map[string]net.Conn{}
	for range 3 {
		c, err := net.Dial("tcp", ln.Addr().String())
		require.NoError(t, err)
		defer c.Close()
		here, err := guarded.Accept()
		require.NoError(t, err)
		defer here.Close()
		_, err = c.Write([]byte("hello"))
		require.NoError(t, err)
		_, err = here.Read(make([]byte, 5))
		require.NoError(t, err)
		_, err = here.Write([]byte("hi"))
		require.NoError(t, err)
		_, err = c.Read(make([]byte, 2))
		require.NoError(t, err)
		clients[c.LocalAddr().String()] = c
	}
	run := func(args ...string) string {
		out, err := exec.CommandContext(t.Context(), "curl", append([]string{"-sS", "-H", "Accept: application/json"}, args...)...).CombinedOutput()
		require.NoError(t, err, string(out))
		return string(out)
	}
	var l Listing
	require.NoError(t, json.Unmarshal([]byte(run(s.URL+"/?view=connections&sort=id&addr=127.0.0.1")), &l))
	require.Equal(t, []uint64{1, 2, 3}, idsIn(l))
	row := l.Connections[1]
	require.Contains(t, clients, row.Addr)
	if row.Received != nil { // on Linux
		require.EqualValues(t, 5, *row.Received)
		require.Equal(t, "kernel", row.Measured)
		require.Positive(t, *row.RoundTrip)
	}
	require.Contains(t, run("-d", "id=2", s.URL), "Authorization: Bearer TOKEN")
	require.Contains(t, run("-d", "id=2", "-H", "Authorization: Bearer "+secret, s.URL), `"state":"leaving"`)
	_, err = clients[row.Addr].Read(make([]byte, 1))
	require.Error(t, err)
	require.Contains(t, run("-d", "id=2", "-H", "Authorization: Bearer "+secret, s.URL), "connection 2 is not open")
	require.Eventually(t, func() bool { kept, _ := h.recent.counts(); return kept > 0 }, eternal, ms, "it is told after the close")
	require.NoError(t, json.Unmarshal([]byte(run(s.URL+"/?view=connections&state=closed")), &l))
	require.Equal(t, []uint64{2}, idsIn(l))
	require.Contains(t, run(s.URL+"/?view=connections&limit=0"), `limit "0", must be a number from 1 to 1000`)
}
