package streamcall_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

func TestMain(m *testing.M) { testserver.Main(m) }

// serve starts a Redis server, with more arguments, and returns its address.
func serve(t *testing.T, args ...string) string { return testserver.Redis(t, args...).Addr }

// connect returns a client with the usual settings: it repeats failed commands.
func connect(t *testing.T, addr string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: addr, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	return client
}
