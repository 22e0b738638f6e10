package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

// serverNumber returns what the server knows of itself.
func serverNumber(b *testing.B, client *goredis.Client, section, field string) float64 {
	info, err := client.InfoMap(context.Background(), section).Result()
	require.NoError(b, err)
	for _, fields := range info {
		if text, there := fields[field]; there {
			number, err := strconv.ParseFloat(text, 64)
			require.NoError(b, err)
			return number
		}
	}
	b.Fatalf("no %s", field)
	return 0
}

func processor(b *testing.B, client *goredis.Client) float64 {
	return serverNumber(b, client, "cpu", "used_cpu_user") + serverNumber(b, client, "cpu", "used_cpu_sys")
}

func benchStore(b *testing.B, server *testserver.Server, slots int) *redisStore {
	return openStore(b, server.URL, Config{Slots: slots, Node: "10.0.0.1:8080", Prefix: prefix()}, incarnation{1})
}

// registerMany returns the claims of so many sessions.
func registerMany(b *testing.B, s *redisStore, count int) []claim {
	claims := make([]claim, 0, count)
	for from := 0; from < count; from += 4096 {
		var asks []registration
		for i := from; i < min(from+4096, count); i++ {
			asks = append(asks, registration{id: fmt.Sprintf("session-%09d", i)})
		}
		answers, err := s.register(ctx, asks)
		require.NoError(b, err)
		for i, a := range answers {
			claims = append(claims, claim{asks[i].id, a.token})
		}
	}
	return claims
}

// BenchmarkExtend extends the leases of 200,000 sessions in batches: in the order of their
// registration, kind to memory, and in a random order, as renewals come.
func BenchmarkExtend(b *testing.B) {
	for _, order := range []string{"made", "shuffled"} {
		b.Run("order="+order, func(b *testing.B) { benchExtend(b, order == "shuffled") })
	}
}

func benchExtend(b *testing.B, shuffled bool) {
	for _, slots := range []int{1, 16, 64} {
		for _, batch := range []int{32, 512, renewBatch} {
			const callers = 2
			b.Run(fmt.Sprintf("slots=%d/batch=%d", slots, batch), func(b *testing.B) {
				server := testserver.Redis(b)
				client, s := connect(b, server), benchStore(b, server, slots)
				claims := registerMany(b, s, 200_000)
				if shuffled {
					rand.Shuffle(len(claims), func(i, j int) { claims[i], claims[j] = claims[j], claims[i] })
				}
				b.ReportAllocs()
				before := processor(b, client)
				b.ResetTimer()
				var next atomic.Int64
				var all errgroup.Group
				for range callers {
					all.Go(func() error {
						for {
							from := int(next.Add(int64(batch))) - batch
							if from >= b.N {
								return nil
							}
							at := from % (len(claims) - batch)
							verdicts, err := s.extend(ctx, claims[at:at+min(batch, b.N-from)])
							for _, v := range verdicts {
								if err == nil && v != held {
									err = fmt.Errorf("verdict %c", v)
								}
							}
							if err != nil {
								return err
							}
						}
					})
				}
				require.NoError(b, all.Wait())
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "extensions/s")
				b.ReportMetric((processor(b, client)-before)*1e6/float64(b.N), "redis-µs/extension")
			})
		}
	}
}

// BenchmarkRegister is about new sessions in batches, and what each takes in Redis: with
// -benchtime 1000000x, of a million.
func BenchmarkRegister(b *testing.B) {
	server := testserver.Redis(b)
	client, s := connect(b, server), benchStore(b, server, 0)
	memory, before := serverNumber(b, client, "memory", "used_memory"), processor(b, client)
	b.ResetTimer()
	registerMany(b, s, b.N)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sessions/s")
	b.ReportMetric((processor(b, client)-before)*1e6/float64(b.N), "redis-µs/session")
	b.ReportMetric((serverNumber(b, client, "memory", "used_memory")-memory)/float64(b.N), "redis-B/session")
}

// BenchmarkSweep looks at 64 slots without an end.
func BenchmarkSweep(b *testing.B) {
	server := testserver.Redis(b)
	client, s := connect(b, server), benchStore(b, server, 0)
	registerMany(b, s, 100_000)
	before := processor(b, client)
	b.ResetTimer()
	for range b.N {
		result, err := s.sweep(ctx, tellBatch, nil)
		require.NoError(b, err)
		require.Empty(b, result.events)
	}
	b.ReportMetric((processor(b, client)-before)*1e6/float64(b.N), "redis-µs/look")
}

// BenchmarkBeat is about a node's lease in all slots.
func BenchmarkBeat(b *testing.B) {
	for _, slots := range []int{16, 1024} {
		b.Run(fmt.Sprint("slots=", slots), func(b *testing.B) {
			server := testserver.Redis(b)
			client, s := connect(b, server), benchStore(b, server, slots)
			s.cfg.NodeLease = 15 * time.Second
			before := processor(b, client)
			b.ResetTimer()
			for range b.N {
				_, err := s.beat(ctx)
				require.NoError(b, err)
			}
			b.ReportMetric((processor(b, client)-before)*1e6/float64(b.N), "redis-µs/beat")
		})
	}
}

// BenchmarkWalk measures the cost of a dead node: the look at each session of all nodes, and the end
// of the dead node's own.
func BenchmarkWalk(b *testing.B) {
	for _, share := range []int{0, 100} {
		b.Run(fmt.Sprintf("dead=%d%%", share), func(b *testing.B) {
			server := testserver.Redis(b)
			client, s := connect(b, server), benchStore(b, server, 0)
			s.cfg.NodeLease = time.Hour // long enough to leave no gap
			if share == 0 {
				s.by = incarnation{2}
			}
			registerMany(b, s, b.N)
			for _, keys := range s.keys { // as if its lease were over
				require.NoError(b, client.HSet(ctx, keys[8].(string), string([]byte{1, 0, 0, 0, 0}), "\x00\x00\x00\x00\x00\x000").Err())
			}
			before := processor(b, client)
			b.ResetTimer()
			for more := true; more; {
				result, err := s.sweep(ctx, s.slots(), nil) // one end per slot is told
				require.NoError(b, err)
				more = result.more
			}
			b.ReportMetric((processor(b, client)-before)*1e6/float64(b.N), "redis-µs/session")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sessions/s")
			_, ended, err := s.count(ctx)
			require.NoError(b, err)
			require.EqualValues(b, b.N*share/100, ended)
		})
	}
}

// BenchmarkNode has a node with 100,000 sessions run b.N rounds of renewals. It reports the renewals
// per second, and the processor time of Redis in per cent of the time. A round is half a minute with
// sessions' leases of a minute and a half, and 200 seconds with a lease of the node's own: so run it
// with -benchtime 1x, or a few.
func BenchmarkNode(b *testing.B) {
	for _, lease := range []time.Duration{0, 15 * time.Second} {
		b.Run(fmt.Sprint("nodeLease=", lease), func(b *testing.B) {
			server := testserver.Redis(b)
			client := connect(b, server)
			n, err := Open(ctx, server.URL, Config{
				Node: "node", NodeLease: lease,
				OnOffline: func(context.Context, Offline) error { return nil },
			})
			require.NoError(b, err)
			defer n.Close()
			fill(b, n, "session", 100_000)
			time.Sleep(n.cfg.Renew) // until renewals are spread
			renewals, before, began := n.Stats().Renewals, processor(b, client), time.Now()
			b.ResetTimer()
			for range b.N {
				time.Sleep(n.cfg.Renew)
			}
			took := time.Since(began).Seconds()
			b.ReportMetric(float64(n.Stats().Renewals-renewals)/took, "renewals/s")
			b.ReportMetric(100*(processor(b, client)-before)/took, "redis-%")
		})
	}
}
