package main

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

const timeout = 2 * time.Second // such as a client keeps on a busy machine

func TestMain(m *testing.M) { testmain.Run(m) }

func TestOnlySilentUsersLeave(t *testing.T) {
	var logged logtest.Log
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Serve(ctx, ln, timeout) }()
	c := client{t, "http://" + ln.Addr().String()}

	_, ann := c.post("/login/ann")
	_, bob := c.post("/login/bob")
	_, eve := c.post("/login/eve")
	code, _ := c.post("/logout/" + eve)
	require.Equal(t, http.StatusOK, code)
	began := time.Now()
	_, user := c.get("/user/" + bob)
	require.Equal(t, "bob", user)
	for time.Since(began) < 3*timeout {
		code, user = c.get("/user/" + ann)
		require.Equal(t, http.StatusOK, code)
		require.Equal(t, "ann", user)
		if len(logged.Lines("bob has left: silent")) > 0 {
			require.GreaterOrEqual(t, time.Since(began), timeout)
		}
		time.Sleep(timeout / 20)
	}
	logged.Await(t, "bob has left: silent")
	code, _ = c.get("/user/" + bob)
	require.Equal(t, http.StatusUnauthorized, code)

	stop()
	require.NoError(t, <-ended)
	logged.Await(t, "ann has left: drained")
	require.Empty(t, logged.Lines("eve has left"))
}

type client struct {
	t    *testing.T
	base string
}

func (c client) get(path string) (code int, body string) {
	return c.answer(http.Get(c.base + path))
}

func (c client) post(path string) (code int, body string) {
	return c.answer(http.Post(c.base+path, "", nil))
}

func (c client) answer(resp *http.Response, err error) (code int, body string) {
	require.NoError(c.t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	require.NoError(c.t, err)
	return resp.StatusCode, string(b)
}

func TestStoppedBeforeItServes(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	stop()
	for range 20 {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		require.NoError(t, Serve(ctx, ln, timeout))
	}
}
