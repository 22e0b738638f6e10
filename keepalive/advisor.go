package keepalive

import (
	"sync/atomic"
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

// advisor counts silences by their length, in shares of the timeout of the connection. A
// connection stops at each edge on its way, so the counts are exact. A connection never silent
// for an eighth of its timeout costs nothing.
type advisor struct {
	reached    [len(rules.Edges)]atomic.Uint64
	nearMisses atomic.Uint64
}

// count counts the edges and near misses found by a decision. A nil advisor is never given any: they are found
// with Advise only.
func (a *advisor) count(out rules.Outcome) {
	for edge := out.Edges[0]; edge < out.Edges[1]; edge++ {
		a.reached[edge].Add(1)
	}
	if out.NearMiss {
		a.nearMisses.Add(1)
	}
}

// get returns the counts. A nil advisor has none.
func (a *advisor) get(timeout time.Duration) (silences []Silence, nearMisses uint64) {
	if a == nil {
		return nil, 0
	}
	for edge, share := range rules.Edges {
		silences = append(silences, Silence{
			Share:  float64(share) / 1000,
			Length: rules.EdgeOf(timeout, edge),
			Count:  a.reached[edge].Load(),
		})
	}
	return silences, a.nearMisses.Load()
}
