package fleet

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

func TestMain(m *testing.M) {
	testmain.Parallel(8)
	goredis.SetLogger(silent{}) // servers are killed here
	if os.Getenv(childGateway) != "" {
		runGateway() // does not return
	}
	if os.Getenv(childURL) != "" {
		runChild() // does not return
	}
	// The client's pool looks every second whether a server is there again, also once after it
	// has been closed.
	left := goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial")
	testserver.Main(m, left)
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

var prefixes atomic.Int64

func prefix() string { return fmt.Sprintf("test-%d", prefixes.Add(1)) }

func connect(t testing.TB, server *testserver.Server) *goredis.Client {
	client := goredis.NewClient(&goredis.Options{Addr: server.Addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	t.Cleanup(func() { client.Close() })
	return client
}

// eventually waits for what has to come. The machine may be busy, so it is patient. Looking may be expensive, so it
// looks ever less often.
func eventually(t testing.TB, condition func() bool, what string) {
	t.Helper()
	for began, pause := time.Now(), 2*time.Millisecond; !condition(); pause = min(2*pause, 50*time.Millisecond) {
		if time.Since(began) > 2*time.Minute {
			t.Fatal("it does not come: ", what)
		}
		time.Sleep(pause)
	}
}
