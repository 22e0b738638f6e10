package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/examples/fleet/internal/gateway"
	"github.com/heartwheel-go/heartwheel/internal/logtest"
	"github.com/heartwheel-go/heartwheel/internal/proctest"
	"github.com/heartwheel-go/heartwheel/internal/redisserver"
)

// asPrograms makes the test's processes run main.
func asPrograms(t *testing.T) {
	name, value, _ := strings.Cut(proctest.AsProgram, "=")
	t.Setenv(name, value)
}

func TestWhatEndsByItselfIsNamed(t *testing.T) {
	asPrograms(t)
	for name, test := range map[string]struct {
		end  func(t *testing.T, d *demo)
		says string
	}{
		"a gateway": {func(t *testing.T, d *demo) {
			ill := d.town.all()[2]
			ill.Kill() // without the demo's knowledge
			state, _ := ill.now()
			require.Equal(t, died, state)
		}, "node-3 (died) says: "},
		"Redis": {func(_ *testing.T, d *demo) { d.redis.Stop() }, "Redis: redis-server has ended"},
	} {
		t.Run(name, func(t *testing.T) {
			var story logtest.Log
			d := newDemo(config{http: "127.0.0.1:0", sessions: 20, lease: 10 * time.Second, renew: time.Second}, &story)
			defer d.close()
			require.NoError(t, d.open(t.Context()))
			told := make(chan error)
			go func() {
				_, err := d.play(t.Context())
				told <- err
			}()
			story.Await(t, "20 sessions are online")
			test.end(t, d)
			select {
			case err := <-told:
				require.Error(t, err)
			case <-time.After(proctest.Eternal):
				t.Fatal("it waits for who can't come")
			}
			require.Len(t, story.Lines("verdict fail: "), 1)
			require.Len(t, story.Lines(test.says), 1, story.String())
		})
	}
}

func TestAGatewayIsUpWhenItHasRedis(t *testing.T) {
	asPrograms(t)
	_, err := startNode(t.Context(), "n", "redis://127.0.0.1:1", anyPort, nil)
	require.ErrorContains(t, err, "n has ended at once: ")
	require.ErrorContains(t, err, "connection refused")
	startOnOwnRedis(t)
}

var anyPort = []string{"-addr", "127.0.0.1:0"}

// startOnOwnRedis starts a node on the test's own Redis, with a meaningless password.
func startOnOwnRedis(t *testing.T) *node {
	asPrograms(t)
	r, err := redisserver.Start(t.Context())
	require.NoError(t, err)
	t.Cleanup(r.Stop)
	n, err := startNode(context.Background(), "n", strings.Replace(r.URL, "//", "//default:secret@", 1), anyPort, func(gateway.Event) {})
	require.NoError(t, err)
	t.Cleanup(n.Kill)
	return n
}
