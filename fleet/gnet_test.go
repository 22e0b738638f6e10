package fleet

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/panjf2000/gnet/v2/pkg/logging"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/heartwheel-go/heartwheel/internal/gnetsocket"
	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/gnetkeepalive"
)

// gnetServer is an engine with sessions. The first line of a connection is its session's id, and
// later lines are heartbeats.
type gnetServer struct {
	gnet.BuiltinEventEngine
	node   *Node
	keeper *keepalive.Keeper
	booted chan error
	engine gnet.Engine
	addr   net.Addr

	registering sync.WaitGroup
}

// startGnet starts an engine with a node of a fleet.
func startGnet(t *testing.T, timeout time.Duration) (*gnetServer, *realFleet) {
	k, err := keepalive.New(keepalive.Config{Timeout: timeout})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, k.Close()) })
	r := newReal(t, testserver.SharedRedis(t), 1, func(c *Config) {
		c.Keeper, c.Lease, c.Renew = k, time.Minute, 20*time.Second
	})
	s := &gnetServer{keeper: k, node: r.nodes[0], booted: make(chan error, 1)}
	ended := make(chan error, 1)
	go func() {
		ended <- gnet.Run(gnetkeepalive.Wrap(s, k), "tcp://127.0.0.1:0", gnet.WithNumEventLoop(1),
			gnet.WithLogger(logging.Logger(zap.NewNop().Sugar())))
	}()
	require.NoError(t, <-s.booted)
	t.Cleanup(func() {
		s.registering.Wait()
		require.NoError(t, s.node.Close()) // it closes connections, which is for an engine that runs
		ctx, cancel := context.WithCancel(context.Background())
		cancel() // Stop looks only twice a second whether it is done
		_ = s.engine.Stop(ctx)
		require.NoError(t, <-ended)
	})
	return s, r
}

func (s *gnetServer) OnBoot(engine gnet.Engine) gnet.Action {
	var err error
	s.engine = engine
	s.addr, err = gnetsocket.Addr(engine)
	s.booted <- err
	return gnet.None
}

func (s *gnetServer) OnTraffic(c gnet.Conn) gnet.Action {
	lines, _ := c.Next(-1)
	if c.Context() != nil {
		_, _ = c.Write(bytes.Clone(lines))
		return gnet.None
	}
	id := string(bytes.TrimSpace(lines))
	c.SetContext(id)
	s.registering.Go(func() { // since it waits for Redis
		if _, err := s.node.Register(ctx, c, id, nil); err == nil {
			_ = c.AsyncWrite([]byte("welcome\n"), nil)
		}
	})
	return gnet.None
}

// dial connects as a session, and waits until it is one.
func (s *gnetServer) dial(t *testing.T, id string) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", s.addr.String())
	require.NoError(t, err)
	t.Cleanup(func() { c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(2*time.Minute)))
	require.Equal(t, "welcome\n", ask(t, c, id))
	return c
}

func ask(t *testing.T, c net.Conn, line string) string {
	t.Helper()
	_, err := fmt.Fprintln(c, line)
	require.NoError(t, err)
	answer, err := bufio.NewReader(c).ReadString('\n')
	require.NoError(t, err)
	return answer
}

func (r *realFleet) endOf(t *testing.T, id string) Offline {
	t.Helper()
	eventually(t, func() bool { return r.diary.by()[id].Epoch != 0 }, "the end is told")
	return r.diary.by()[id]
}

func TestAHeartbeatOnGnetWritesNothingAndSilenceEndsTheSession(t *testing.T) {
	t.Parallel()
	s, r := startGnet(t, 3*time.Second)
	c := s.dial(t, "a")
	before, err := s.node.Lookup(ctx, "a")
	require.NoError(t, err)
	var last time.Time
	for range 30 { // longer than the timeout
		last = time.Now()
		require.Equal(t, "beat\n", ask(t, c, "beat"))
		time.Sleep(150 * time.Millisecond)
	}
	after, err := s.node.Lookup(ctx, "a")
	require.NoError(t, err)
	require.Equal(t, before, after, "the lease is as it was")
	require.Zero(t, s.node.Stats().Renewals)

	_, err = io.Copy(io.Discard, c) // and says nothing
	require.NoError(t, err)
	require.GreaterOrEqual(t, time.Since(last), 3*time.Second)
	require.Equal(t, ReasonClosed, r.endOf(t, "a").Reason)
	require.Zero(t, s.node.Len())
}

func TestAKickClosesTheConnectionOfGnet(t *testing.T) {
	t.Parallel()
	s, r := startGnet(t, time.Minute)
	c := s.dial(t, "a")
	require.NoError(t, s.node.Kick(ctx, "a"))
	_, err := io.Copy(io.Discard, c)
	require.NoError(t, err)
	require.Equal(t, ReasonKicked, r.endOf(t, "a").Reason)
	eventually(t, func() bool { return s.keeper.Stats().Closed[keepalive.ReasonLocal] == 1 }, "the Keeper knows")
}

func TestASessionOnGnetEndsWhenItsPeerCloses(t *testing.T) {
	t.Parallel()
	s, r := startGnet(t, time.Minute)
	require.NoError(t, s.dial(t, "a").Close())
	require.Equal(t, ReasonClosed, r.endOf(t, "a").Reason)

	// The session moves with its client, and the old connection is closed.
	old, anew := s.dial(t, "b"), s.dial(t, "b")
	_, err := io.Copy(io.Discard, old)
	require.NoError(t, err)
	require.Equal(t, "beat\n", ask(t, anew, "beat"))
	require.Zero(t, r.diary.by()["b"])
}

func TestThoseThatComeAndGoAtOnceLeaveNoSession(t *testing.T) {
	t.Parallel()
	s, _ := startGnet(t, time.Minute)
	const count, workers = 1000, 20
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for i := range count / workers {
				c, err := net.Dial("tcp", s.addr.String())
				if err != nil {
					t.Error(err)
					return
				}
				fmt.Fprintf(c, "session-%d-%d\n", worker, i)
				if i%3 == 0 {
					time.Sleep(time.Millisecond) // so that some are registered meanwhile
				}
				c.Close()
			}
		})
	}
	all.Wait()
	eventually(t, func() bool { return s.keeper.Stats().Opened == count && s.keeper.Len() == 0 }, "all have gone")
	s.registering.Wait()
	eventually(t, func() bool {
		online, err := s.node.Count(ctx)
		return err == nil && online == 0 && s.node.Len() == 0
	}, "no session is left")
}
