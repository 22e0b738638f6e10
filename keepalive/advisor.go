package keepalive

import (
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive/internal/rules"
)

// Silence is how many silences were at least so long, see Config.Advise. A timeout of that
// length would have closed so many connections.
//
// Silences beyond the timeout in force are only known with Closing.DryRun: otherwise their
// connections were closed at the timeout.
type Silence struct {
	Share  float64       // of the timeout, of Config or of the connection's own
	Length time.Duration // Share of Config.Timeout
	Count  uint64
}

// advisedShares are the lengths in Stats.Silences. A silence reaches 1 and more only if nobody is closed: with DryRun, or
// because the user lets a connection live.
var advisedShares = [...]float64{0.125, 0.25, 0.375, 0.5, 0.625, 0.75, nearMiss, 0.875, 1, 1.25, 1.5, 1.75, 2}

// nearMiss is the share beyond which a silence, ended by its peer, nearly ended its connection.
const nearMiss = 0.8

// lengths are numbers of silences: those of at least each share, and the near misses.
type lengths struct {
	reached    [len(advisedShares)]uint64
	nearMisses uint64
}

// add counts a silence. heard says that its peer has ended it.
func (l *lengths) add(silence, timeout time.Duration, heard bool) {
	share := float64(silence) / float64(timeout)
	for i := range l.reached {
		if share >= advisedShares[i] {
			l.reached[i]++
		}
	}
	if heard && share >= nearMiss && share < 1 {
		l.nearMisses++
	}
}

// advisor counts silences as they end. Stats adds those that go on.
type advisor struct {
	mu    sync.Mutex
	ended lengths
	told  lengths // by Stats: a silence that ends while it looks at all of them may be counted twice, and no count may shrink
}

// endsSilence counts the silence of a connection, which ends now. heard says that its peer ends it.
func (g *Guard) endsSilence(silence time.Duration, heard bool) {
	p := g.keeper.policy.Load()
	if silence < p.Tick || p.advisor == nil {
		return
	}
	if timeout := g.advisedTimeout(p); timeout > 0 && float64(silence) >= advisedShares[0]*float64(timeout) {
		p.advisor.mu.Lock()
		p.advisor.ended.add(silence, timeout, heard)
		p.advisor.mu.Unlock()
	}
}

// advisedTimeout returns the timeout of the connection, or 0 if it is held: then no timeout could end it.
func (g *Guard) advisedTimeout(p *policy) time.Duration {
	g.mu.Lock()
	s := g.state()
	g.mu.Unlock()
	switch {
	case s.Holds > 0:
		return 0
	case s.Own > 0:
		return s.Own
	}
	return p.Timeout
}

// advice returns the counts, and none without Config.Advise. It looks at all connections.
func (k *Keeper) advice(p *policy) (silences []Silence, nearMisses uint64) {
	a := p.advisor
	if a == nil {
		return nil, 0
	}
	var open lengths
	for _, g := range k.pool.All() {
		if timeout := g.advisedTimeout(p); timeout > 0 {
			open.add(g.timer.SinceTouch(), timeout, false)
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, share := range advisedShares {
		a.told.reached[i] = max(a.told.reached[i], a.ended.reached[i]+open.reached[i])
		silences = append(silences, Silence{
			Share:  share,
			Length: rules.Saturated(float64(p.Timeout) * share),
			Count:  a.told.reached[i],
		})
	}
	return silences, a.ended.nearMisses
}
