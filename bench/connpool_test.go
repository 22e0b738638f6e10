package bench

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/puddle/v2"

	"github.com/heartwheel-go/heartwheel/connpool"
	"github.com/heartwheel-go/heartwheel/internal/figures"
)

// outbound is a pool of outbound connections, whose connections here are numbers, so
// that nothing but the pool is measured. use is a Get and a Put.
type outbound interface {
	use(ctx context.Context) error
	close()
}

// An outboundImpl makes a pool of at most so many connections.
type outboundImpl struct {
	name string
	open func(most int) outbound
}

// outbounds are the pools that are compared. heartwheel has what its users would set:
// times after which it closes what is idle or old; puddle leaves both to its users.
var outbounds = []outboundImpl{
	{"heartwheel", newHeartwheelPool},
	{"puddle", newPuddle},
}

type heartwheelPool struct{ *connpool.Pool[int] }

func newHeartwheelPool(most int) outbound {
	p, err := connpool.New(connpool.Config[int]{
		Dial:    func(context.Context) (int, error) { return 1, nil },
		Close:   func(int, connpool.Reason) {},
		MaxOpen: most,
		MaxAge:  time.Hour,
	})
	if err != nil {
		panic(err)
	}
	return heartwheelPool{p}
}

func (p heartwheelPool) use(ctx context.Context) error {
	l, err := p.Get(ctx)
	if err != nil {
		return err
	}
	return l.Put()
}

func (p heartwheelPool) close() { p.Close() }

type puddlePool struct{ *puddle.Pool[int] }

func newPuddle(most int) outbound {
	p, err := puddle.NewPool(&puddle.Config[int]{
		Constructor: func(context.Context) (int, error) { return 1, nil },
		Destructor:  func(int) {},
		MaxSize:     int32(most),
	})
	if err != nil {
		panic(err)
	}
	return puddlePool{p}
}

func (p puddlePool) use(ctx context.Context) error {
	r, err := p.Acquire(ctx)
	if err != nil {
		return err
	}
	r.Release()
	return nil
}

func (p puddlePool) close() { p.Close() }

// BenchmarkGetPut takes a connection and puts it back. Both pools are measured in
// turns, some milliseconds each, so that what the machine does besides hits both;
// medians are reported, and the ratio of those. Of conns=2 most users wait for one.
func BenchmarkGetPut(b *testing.B) {
	for _, c := range []struct{ users, conns int }{{1, 16}, {8, 16}, {8, 2}} {
		b.Run(fmt.Sprintf("users=%d/conns=%d", c.users, c.conns), func(b *testing.B) {
			var pools []outbound
			for _, im := range outbounds {
				p := im.open(c.conns)
				defer p.close()
				pools = append(pools, p)
			}
			ns := make([][]float64, len(pools))
			for b.Loop() {
				for i, p := range pools {
					ns[i] = append(ns[i], useMany(b, p, c.users))
				}
			}
			b.ReportMetric(0, "ns/op")
			for i, im := range outbounds {
				b.ReportMetric(figures.Median(ns[i]), im.name+"-ns")
			}
			b.ReportMetric(figures.Median(ns[1])/figures.Median(ns[0]), "puddle/heartwheel")
		})
	}
}

// useMany returns how long a use takes, in nanoseconds, where users have many at the
// same time.
func useMany(b *testing.B, p outbound, users int) float64 {
	const uses = 1 << 17 // so that each user runs on for some time slices of the scheduler
	ctx := b.Context()
	var g sync.WaitGroup
	start := time.Now()
	for range users {
		g.Go(func() {
			for range uses / users {
				if err := p.use(ctx); err != nil {
					b.Error(err)
				}
			}
		})
	}
	g.Wait()
	return float64(time.Since(start)) / uses
}

// BenchmarkGetPutAllocs is one user of one pool, for its allocations and for a profile.
func BenchmarkGetPutAllocs(b *testing.B) {
	for _, im := range outbounds {
		b.Run("impl="+im.name, func(b *testing.B) {
			p := im.open(16)
			defer p.close()
			b.ReportAllocs()
			for b.Loop() {
				if err := p.use(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
