package gnetkeepalive

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// Shed's word waits in the queue of a busy loop, and the peer leaves first: then the descriptor may be a stranger's.
func TestAConnectionThatHasLeftIsNotToldToLeave(t *testing.T) {
	var told atomic.Int64
	k := newKeeper(t, keepalive.Config{Timeout: eternal, Age: keepalive.Age{OnMax: func(any) { told.Add(1) }}})
	busy, free := make(chan bool), make(chan bool)
	var gone atomic.Bool
	a := &app{onTraffic: func(c gnet.Conn) gnet.Action {
		if b, _ := c.Peek(-1); string(b) == "block" {
			busy <- true
			<-free
		}
		return echo(c)
	}, onClose: func(gnet.Conn, error) gnet.Action { gone.Store(true); return gnet.None }}
	e := start(t, a, k, gnet.WithNumEventLoop(1))
	victim := e.dial(t)
	say(t, victim, "hi")
	other := e.dial(t)
	say(t, other, "hi")
	_, err := other.Write([]byte("block"))
	require.NoError(t, err)
	<-busy
	victim.Close() // its event comes before the task
	time.Sleep(20 * ms)
	shed := make(chan error, 1)
	go func() {
		_, err := k.Shed(t.Context(), keepalive.Shed{Count: 1})
		shed <- err
	}()
	time.Sleep(20 * ms)
	free <- true
	require.NoError(t, <-shed)
	require.Eventually(t, gone.Load, eternal, ms)
	require.Zero(t, told.Load())
}
