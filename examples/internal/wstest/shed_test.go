package wstest

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	coder "github.com/coder/websocket"
	gorilla "github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/internal/exampletest"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

// The clients of both libraries are told to come again, the oldest first.
func TestSocketsThatAreShedAreToldToComeAgain(t *testing.T) {
	each(t, func(t *testing.T, v variant) {
		s := start(t, v, echo)
		ctx, cancel := context.WithTimeout(t.Context(), exampletest.Late)
		defer cancel()
		read := make(chan error, 2)
		first := s.dial(t)
		go func() { read <- requireGoodbye(gorilla.CloseGoingAway, "shed", first)() }()
		second, _, err := coder.Dial(ctx, s.url("ws", "/ws?name=alice"), &coder.DialOptions{
			HTTPClient: &http.Client{Transport: &http.Transport{TLSClientConfig: insecure()}},
		})
		require.NoError(t, err)
		defer second.CloseNow()
		go func() {
			_, _, err := second.Read(ctx)
			if closed := new(coder.CloseError); errors.As(err, closed) && closed.Code == coder.StatusGoingAway && closed.Reason == "shed" {
				err = nil
			}
			read <- err
		}()
		third := s.dial(t)
		stays := make(chan error, 1)
		go func() {
			_, _, err := third.ReadMessage()
			stays <- err
		}()
		require.Eventually(t, func() bool { return s.keeper.Len() == 3 }, exampletest.Late, time.Millisecond)
		n, err := s.keeper.Shed(ctx, keepalive.Shed{Count: 2})
		require.NoError(t, err)
		require.Equal(t, 2, n)
		for range n {
			require.NoError(t, <-read)
			require.Equal(t, end{"alice", keepalive.ReasonShed}, <-s.told)
		}
		require.NoError(t, third.WriteMessage(gorilla.BinaryMessage, []byte("still here")))
		require.NoError(t, <-stays)
	})
}
