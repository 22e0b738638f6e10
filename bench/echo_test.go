package bench

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/figures"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

const (
	echoConns   = 16  // of each server
	echoMessage = 64  // bytes
	echoTurn    = 512 // messages in a turn, which takes some ms
	echoTurns   = 600 // of each server: most runs agree within 1 %, and with 250 within 2 %
	echoTimeout = 30 * time.Second
)

// echoServers are one server in three ways. The others are compared with bare.
var echoServers = [...]struct {
	name      string
	guarded   bool // accepts from k.Listener(ln)
	deadlines bool // sets a deadline before every read
}{
	{name: "bare"},
	{name: "heartwheel", guarded: true},
	{name: "SetReadDeadline", deadlines: true},
}

// BenchmarkEcho reports what a message takes of the clock, and of the processor
// time of a server whose client is a process of its own.
//
// What is looked for is less than what a machine does by itself from one second
// to the next. So the servers take turns, in another order in each round. A time
// is the median of a server's turns, a ratio to bare the median of the ratios
// within a round.
func BenchmarkEcho(b *testing.B) {
	if addrs := os.Getenv(echoEnv); addrs != "" {
		beEchoClient(strings.Fields(addrs))
		return
	}
	client := serveEchoes(b)
	var names []string
	for _, s := range echoServers {
		names = append(names, s.name)
	}
	for _, pipeline := range []int{1, 16} {
		measureEchoes(b, client, names, pipeline)
	}
}

// serveEchoes starts the servers, and a client that is connected to them.
func serveEchoes(b *testing.B) *echoClient {
	k, err := keepalive.New(keepalive.Config{Timeout: echoTimeout})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = k.Close() })
	var listeners []net.Listener
	var addrs []net.Addr
	for _, s := range echoServers {
		ln := listen()
		defer ln.Close()
		if s.guarded {
			ln = k.Listener(ln)
		}
		listeners, addrs = append(listeners, ln), append(addrs, ln.Addr())
	}
	client := startEchoClient(b, echoConns, addrs)
	for i, ln := range listeners {
		for range echoConns {
			go echo(accept(ln), echoServers[i].deadlines)
		}
	}
	client.connected(b)
	if k.Len() != echoConns {
		b.Fatalf("%d connections are guarded, of %d", k.Len(), echoConns)
	}
	return client
}

// echo serves one connection. Each message is a read and a write.
func echo(c net.Conn, deadlines bool) {
	defer c.Close()
	message := make([]byte, echoMessage)
	for {
		if deadlines {
			_ = c.SetReadDeadline(time.Now().Add(echoTimeout))
		}
		if _, err := io.ReadFull(c, message); err != nil {
			return
		}
		if _, err := c.Write(message); err != nil {
			return
		}
	}
}

// measureEchoes lets the servers take turns. The first is what the others are
// compared with.
func measureEchoes(b *testing.B, client *echoClient, names []string, pipeline int) {
	times, cpu := make([][]float64, len(names)), make([][]float64, len(names))
	for range echoTurns {
		for _, server := range rand.Perm(len(names)) {
			start, before := time.Now(), cpuTime()
			if err := client.exchange(server, pipeline); err != nil {
				b.Fatal(err)
			}
			times[server] = append(times[server], float64(time.Since(start))/echoTurn)
			cpu[server] = append(cpu[server], float64(cpuTime()-before)/echoTurn)
		}
	}
	for i, name := range names {
		b.Run(fmt.Sprintf("impl=%s/pipeline=%d", name, pipeline), func(b *testing.B) {
			b.ReportMetric(figures.Median(times[i]), "ns/msg")
			b.ReportMetric(figures.Median(cpu[i]), "CPU-ns/msg")
			b.ReportMetric(figures.Median(ratios(times[i], times[0])), "time-x-bare")
			b.ReportMetric(figures.Median(ratios(cpu[i], cpu[0])), "CPU-x-bare")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// ratios returns v by what bare took in the same rounds.
func ratios(v, bare []float64) []float64 {
	r := make([]float64, len(v))
	for i := range v {
		r[i] = v[i] / bare[i]
	}
	return r
}
