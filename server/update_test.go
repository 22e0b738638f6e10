package server

import (
	"context"
	"log/slog"
	"math"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/panjf2000/gnet/v2"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// A connection has the new timeout from the Keeper's next look at it. Here a timeout of its own
// makes that soon.
func TestUpdateReachesOpenConnections(t *testing.T) {
	r := start(t, Config{Config: keepalive.Config{Timeout: 2 * timeout, Tick: 10 * ms}})
	c := r.dial(t)
	begin := time.Now()
	require.Equal(t, "PONG\n", ask(t, c, "PING\n"))
	cfg := r.Config()
	cfg.Timeout = 300 * ms
	require.NoError(t, r.Update(cfg))
	require.Equal(t, "BYE idle timeout 300ms\n", rest(t, c), "the farewell has the timeout that is in force")
	require.GreaterOrEqual(t, time.Since(begin), 300*ms)

	begin = time.Now()
	require.Equal(t, "BYE idle timeout 300ms\n", rest(t, r.dial(t)))
	require.GreaterOrEqual(t, time.Since(begin), 300*ms)
	require.Equal(t, 300*ms, r.Config().Timeout)
}

func TestTheFarewellHasTheTimeoutOfItsConnection(t *testing.T) {
	r := start(t, Config{Config: keepalive.Config{Timeout: time.Minute, Tick: 10 * ms}, Line: func(c gnet.Conn, line []byte) ([]byte, bool) {
		_, err := keepalive.Of(c).SetTimeout(200 * ms)
		return line, err == nil
	}})
	c := r.dial(t)
	require.Equal(t, "soon\n", ask(t, c, "soon\n"))
	require.Equal(t, "BYE idle timeout 200ms\n", rest(t, c))
}

func TestUpdateOfLimits(t *testing.T) {
	r := start(t, Config{Config: keepalive.Config{Room: keepalive.Room{MaxConns: 1}}})
	c := r.dial(t)
	line := strings.Repeat("x", 100) + "\n"
	require.Equal(t, line, ask(t, c, line))
	require.Equal(t, refusedFull, rest(t, r.dial(t)))

	require.NoError(t, r.Update(Config{MaxLine: 99, Config: keepalive.Config{Timeout: time.Minute, Room: keepalive.Room{MaxConns: 2}}}))
	require.Equal(t, 2, r.Config().Room.MaxConns)
	second := r.dial(t)
	require.Equal(t, "PONG\n", ask(t, second, "PING\n"))
	require.Equal(t, refusedFull, rest(t, r.dial(t)))
	require.Equal(t, "ERR line too long\n", ask(t, c, line))

	require.NoError(t, r.Update(Config{Config: keepalive.Config{Room: keepalive.Room{MaxConns: 10, MaxPerKey: 1}}}))
	require.Equal(t, "PONG\n", ask(t, r.dial(t), "PING\n"), "those from before are not counted")
	require.Equal(t, refusedFull, rest(t, r.dial(t)))
	require.Equal(t, "PONG\n", ask(t, second, "PING\n"))
}

// Open connections are no descriptors of the rest of the program.
func TestUpdateFindsTheSameRoomWithConnections(t *testing.T) {
	r := start(t, Config{})
	room := r.Config().Room.MaxConns
	for range 50 {
		require.Equal(t, "PONG\n", ask(t, r.dial(t), "PING\n"))
	}
	require.NoError(t, r.Update(Config{}))
	require.Equal(t, room, r.Config().Room.MaxConns)
}

func TestUpdateThatIsRefusedChangesNothing(t *testing.T) {
	r := start(t, Config{
		Loops: 1,
		Config: keepalive.Config{
			Timeout: time.Minute, Tick: 20 * ms,
			Room: keepalive.Room{MaxConns: 9, Full: keepalive.FullEvict}, Age: keepalive.Age{Max: time.Hour},
		},
	})
	before := r.Config()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer other.Close()
	for want, change := range map[string]func(cfg *Config){
		`Addr "127.0.0.1:1", can't be changed from "127.0.0.1:0"`:                            func(cfg *Config) { cfg.Addr = "127.0.0.1:1" },
		`Addr "127.0.0.1:0" and a Listener, must be one of them`:                             func(cfg *Config) { cfg.Listener = other },
		"Loops 2, can't be changed from 1":                                                   func(cfg *Config) { cfg.Loops = 2 },
		"Logger, can't be changed":                                                           func(cfg *Config) { cfg.Logger = slog.Default() },
		"keepalive: invalid argument: Tick 50ms, can't be changed from 20ms":                 func(cfg *Config) { cfg.Tick = 50 * ms },
		"keepalive: invalid argument: Room.Full reject, can't be changed from evict":         func(cfg *Config) { cfg.Room.Full = keepalive.FullReject },
		"keepalive: invalid argument: Room.MinIdle 1s, can't be changed from 0s":             func(cfg *Config) { cfg.Room.MinIdle = time.Second },
		"keepalive: invalid argument: Tick 20ms is longer than Timeout 1ms":                  func(cfg *Config) { cfg.Timeout = ms },
		"MaxLine -1, must not be negative":                                                   func(cfg *Config) { cfg.MaxLine = -1 },
		"Room.MaxConns 9223372036854775807: the process may have":                            func(cfg *Config) { cfg.Room.MaxConns = math.MaxInt },
		"ShutdownTimeout 10s, must not be less than DrainDelay 0s and Drain 1h0m0s together": func(cfg *Config) { cfg.Drain = time.Hour },
	} {
		cfg := before
		cfg.Age.Max, cfg.MaxLine = time.Minute, 5 // fine
		change(&cfg)
		err := r.Update(cfg)
		require.ErrorIs(t, err, ErrArgument)
		require.ErrorContains(t, err, "server: invalid argument: "+want)
		after := r.Config()
		require.Equal(t, before.Timeout, after.Timeout)
		require.Equal(t, before.MaxLine, after.MaxLine)
		require.Equal(t, time.Hour, r.Keeper().Config().Age.Max)
	}
}

func TestUpdateOfAServerThatHasEnded(t *testing.T) {
	s := idle(t, Config{})
	require.NoError(t, s.Update(Config{Config: keepalive.Config{Timeout: time.Minute}}), "one that does not run yet")
	require.Equal(t, time.Minute, s.Keeper().Config().Timeout)
	require.NoError(t, s.Shutdown(context.Background()))
	require.ErrorIs(t, s.Update(Config{}), ErrClosed)
}

// Several updates at once, beside busy connections: one config is in force at the end, the same
// for the server and its Keeper.
func TestUpdatesAtOnce(t *testing.T) {
	r := start(t, Config{Loops: runtime.GOMAXPROCS(0)})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := range 50 {
				err := r.Update(Config{MaxLine: 1000 * (i + 1), Config: keepalive.Config{Timeout: time.Duration(1000*(i+1)+n) * time.Second}})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	c := r.dial(t)
	for range 100 {
		require.Equal(t, "PONG\n", ask(t, c, "PING\n"))
	}
	all.Wait()
	require.Equal(t, r.Config().Timeout, r.Keeper().Config().Timeout)
	require.EqualValues(t, r.Config().Timeout/time.Second/1000*1000, r.Config().MaxLine)
}
