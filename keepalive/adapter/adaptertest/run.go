package adaptertest

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// Adapter is an adapter under test. The zero values of its booleans are those of an adapter
// for TCP with a goroutine for each connection.
type Adapter struct {
	// Start starts a server on loopback and returns its address. The server guards its
	// connections with k and passes each line to handle. Start registers a t.Cleanup to stop
	// it, with all connections still open, and to wait until it is gone.
	Start func(t *testing.T, k *keepalive.Keeper, handle Handler) net.Addr

	// Datagrams says that a connection is a session of datagrams, as over UDP: it begins with
	// the peer's first datagram, and neither side sees the other one close it. A line is a
	// datagram.
	Datagrams bool

	// NoSocket says that Control has no socket to ask: Config.ReadIdle and Config.WriteIdle
	// have no effect, and ActivityKernel is ActivityRead.
	NoSocket bool

	// NoWait says that keepalive.FullWait is keepalive.FullReject, because the framework accepts connections
	// before the adapter sees them.
	NoWait bool

	// InLoop says that the functions of the Config run in an event loop, also for other
	// connections, which wait while one of them blocks.
	InLoop bool

	// NoGoexit says that the functions of the Config run on a goroutine of the framework's,
	// such as an event loop, which must not end: they must not call runtime.Goexit.
	NoGoexit bool
}

// Handler handles a line, without its end, from a connection as the program knows it. The
// server writes the answer to the peer, and then closes the connection unless it is to stay.
// An empty answer is none. conn must be comparable. Handler may block: meanwhile the server
// must not handle another line of the same connection.
type Handler func(conn any, line string) (answer []byte, stay bool)

// atOnce is how many tests run at the same time.
const atOnce = 16

// Run tests an adapter. What the adapter is said to lack has to be missing, too. Run returns the
// adapter's properties, or nil if a test has failed, or did not run: because of the flag -run,
// or because the system can't do what it tests.
func Run(t *testing.T, a Adapter) []Property {
	t.Helper()
	var running sync.WaitGroup
	var missed atomic.Bool
	places := make(chan struct{}, atOnce)
	for _, one := range tests() {
		if !one.concerns(a) {
			continue
		}
		// Not t.Parallel: it runs only one test for each processor.
		places <- struct{}{}
		running.Go(func() {
			defer func() { <-places }()
			passed := false
			t.Run(one.name, func(t *testing.T) {
				r := &rig{T: t, adapter: a}
				one.run(r)
				r.settle()
				passed = true
			})
			if !passed {
				missed.Store(true)
			}
		})
	}
	running.Wait()
	if missed.Load() || t.Failed() {
		return nil
	}
	return a.proved()
}

// test is one test of the suite. It starts one server. At most one of its properties is set.
type test struct {
	name string
	of   property // for adapters with it
	lack property // for adapters without it
	run  func(r *rig)
}

func tests() []test {
	return slices.Concat(
		lifeTests(), silenceTests(), stallTests(), staleTests(), roomTests(), farewellTests(),
		reasonTests(), drainTests(), failingTests(), probeTests(), verdictTests(), ownTests(), updateTests(),
	)
}
