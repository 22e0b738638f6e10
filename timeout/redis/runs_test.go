package redis_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/redisrun"
	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

var runNames = redisrun.Names{
	Package: "test", Argument: errors.New("argument"), Closed: errors.New("closed"), Full: errors.New("full"),
}

// playRedis has a client run calls on a server played by answer. It gets each command and returns the reply
// of Redis, or an empty one for none.
func playRedis(t *testing.T, readTimeout time.Duration, answer func(command []string) string) *redisrun.Client {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for in := bufio.NewReader(conn); ; {
					command, err := readCommand(in)
					if err != nil {
						return
					}
					reply := "-ERR unknown command\r\n"
					if name := strings.ToUpper(command[0]); name == "EVALSHA" || name == "EVAL" || name == "SCRIPT" {
						reply = answer(command)
					}
					_, _ = io.WriteString(conn, reply)
				}
			}()
		}
	}()
	client := goredis.NewClient(&goredis.Options{
		Addr: ln.Addr().String(), MaxRetries: -1, Protocol: 2, DisableIdentity: true, ReadTimeout: readTimeout, ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { client.Close() })
	run, err := redisrun.New(client, runNames)
	require.NoError(t, err)
	return run
}

// readCommand reads an array of bulk strings.
func readCommand(in *bufio.Reader) (words []string, err error) {
	count, err := readNumber(in)
	for range count {
		size, err := readNumber(in)
		if err != nil {
			return nil, err
		}
		word := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, err
		}
		words = append(words, string(word[:size]))
	}
	return words, err
}

func readNumber(in *bufio.Reader) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}

// callsOf returns calls of these scripts in turn.
func callsOf(count int, scripts ...*redisrun.Script) []*redisrun.Call {
	calls := make([]*redisrun.Call, count)
	for i := range calls {
		calls[i] = &redisrun.Call{Script: scripts[i%len(scripts)], Keys: []any{"k"}}
	}
	return calls
}

func TestAServerThatHangsInTheMiddleOfAWindowIsSentNoMore(t *testing.T) {
	var sent atomic.Int64
	run := playRedis(t, 200*time.Millisecond, func([]string) string {
		if sent.Add(1)%redisrun.Window == 1 {
			return "-OOM command not allowed\r\n"
		}
		return "" // it hangs
	})
	calls := callsOf(4*redisrun.Window, redisrun.NewScript("one", "no-writes", "return {1}"))
	require.Error(t, run.Run(t.Context(), calls))
	require.ErrorIs(t, calls[0].Err, runNames.Full)
	for _, c := range calls[1:] {
		require.ErrorContains(t, c.Err, "i/o timeout")
	}
	require.LessOrEqual(t, sent.Load(), int64(redisrun.Window), "all calls left fail at once")
}

func TestAScriptThatCanNotBeLoadedYetIsRunLater(t *testing.T) {
	var loading, loaded atomic.Int64
	loading.Store(3)
	run := playRedis(t, time.Minute, func(command []string) string {
		switch {
		case command[0] == "EVALSHA" && loaded.Load() == 0:
			return "-NOSCRIPT No matching script.\r\n"
		case command[0] == "EVALSHA":
			return "*1\r\n:1\r\n"
		case loading.Add(-1) >= 0: // it has just begun anew
			return "-LOADING Redis is loading the dataset in memory\r\n"
		}
		loaded.Add(1)
		return "*1\r\n:1\r\n"
	})
	calls := callsOf(6, redisrun.NewScript("one", "no-writes", "return {1}"), redisrun.NewScript("two", "no-writes", "return {2}"))
	require.NoError(t, run.Run(t.Context(), calls))
	for _, c := range calls {
		require.NoError(t, c.Err)
		require.Equal(t, []any{int64(1)}, c.Answer)
	}
}

// While an address moves, one connection can lead to the old server, and another to the new one.
func TestAScriptUnknownAgainAfterItWasLoadedIsRunByItsText(t *testing.T) {
	source := ""
	run := playRedis(t, time.Minute, func(command []string) string {
		switch command[0] {
		case "EVALSHA":
			return "-NOSCRIPT No matching script.\r\n"
		case "EVAL":
			source = command[1]
			return "*1\r\n:1\r\n"
		}
		return "$3\r\nsha\r\n" // by another server
	})
	for _, c := range callsOf(2, redisrun.NewScript("one", "no-writes", "return {1}")) {
		require.NoError(t, run.RunOne(t.Context(), c))
		require.Equal(t, []any{int64(1)}, c.Answer)
		require.Equal(t, "#!lua flags=no-writes\nreturn {1}", source)
	}
}

func TestAClientOfOneServerMeetsACluster(t *testing.T) {
	t.Parallel()
	run := playRedis(t, time.Minute, func([]string) string { return "-ASK 3999 127.0.0.1:6381\r\n" })
	c := callsOf(1, redisrun.NewScript("one", "no-writes", "return {1}"))[0]
	require.ErrorContains(t, run.RunOne(t.Context(), c), "ASK 3999 127.0.0.1:6381")
}

// A slot moves to a server that hangs. The one that it moves from answers all other calls.
func TestAServerThatHangsAndTakesOverASlotHoldsUpOnlyTheSlot(t *testing.T) {
	t.Parallel()
	cluster := testserver.RedisCluster(t, 3, 0, "--cluster-require-full-coverage", "no")
	home, to := server{cluster.Nodes[0]}, server{cluster.Nodes[1]}
	run, err := redisrun.Open(ctx, home.URL+"?read_timeout=5s", runNames)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, run.Close()) })
	run.Shun()
	var keys []any // of two slots of home
	var slots []int64
	for i := 0; len(keys) < 2; i++ {
		key := fmt.Sprint(i)
		client, err := run.ForKey(ctx, key)
		require.NoError(t, err)
		slot := client.ClusterKeySlot(ctx, key).Val()
		if client.Options().Addr == home.Addr && !slices.Contains(slots, slot) {
			keys, slots = append(keys, key), append(slots, slot)
		}
	}
	homeID, toID := home.client(t).Do(ctx, "CLUSTER", "MYID").Val(), to.client(t).Do(ctx, "CLUSTER", "MYID").Val()
	require.NoError(t, to.client(t).Do(ctx, "CLUSTER", "SETSLOT", slots[0], "IMPORTING", homeID).Err())
	require.NoError(t, home.client(t).Do(ctx, "CLUSTER", "SETSLOT", slots[0], "MIGRATING", toID).Err())
	calls := callsOf(4*redisrun.Window, redisrun.NewScript("one", "no-writes", "return {1}"))
	for i, c := range calls {
		c.Keys = []any{keys[min(i, 1)]}
	}
	require.NoError(t, run.Run(ctx, calls), "the server that takes over is asked")
	to.Pause(t)
	for range 2 {
		require.Error(t, run.Run(ctx, calls))
		require.Error(t, calls[0].Err)
		for _, c := range calls[1:] {
			require.NoError(t, c.Err)
		}
	}
	require.ErrorContains(t, calls[0].Err, to.Addr+" does not answer", "it is not waited for any more")
}
