package debughttp

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/wheel"
)

// askTimeout is how long event loops may take to say where their connections come from.
const askTimeout = 100 * time.Millisecond

// never is from when on a deadline is none.
const never = 100 * 365 * 24 * time.Hour

// encoded takes a snapshot and returns its JSON, and how long that took, less the time
// for which others were waited for.
func (h *Handler) encoded() (body []byte, cost time.Duration, err error) {
	begin := time.Now()
	s := h.take()
	conns := h.keeper.Idlest(maxIdlest)
	asked := time.Now()
	addrs := h.ask(conns)
	waited := time.Since(asked)
	s.Idlest = h.idlest(conns, addrs)
	if body, err = json.Marshal(s); err != nil {
		err = fmt.Errorf("debughttp: encoding a snapshot: %w", err)
	}
	return body, time.Since(begin) - waited, err
}

// take takes all of a snapshot but the idlest.
func (h *Handler) take() Snapshot {
	stats, cfg := h.keeper.Stats(), h.keeper.Config()
	s := Snapshot{
		Name:        printable(h.cfg.Name),
		At:          time.Now(),
		Started:     h.started,
		Uptime:      time.Since(h.started).Seconds(),
		AddrsHidden: h.cfg.HideAddrs,
		Connections: connectionsOf(stats),
		Draining:    stats.Draining,
		Reduction:   stats.Reduction,
		Wheel:       wheelOf(stats.Wheel, h.keeper.Fill(), cfg.Tick),
		Ages:        histogramOf(stats.Ages),
		RoundTrips:  histogramOf(stats.RoundTrips),
		Settings:    settingsOf(cfg),
		Recent:      []End{},
	}
	if cfg.Advise {
		s.Advice = adviceOf(h.keeper.Advice())
	}
	for _, r := range keepalive.Reasons() {
		s.Reasons = append(s.Reasons, Reason{Name: r.String(), Text: textOf(r), Retryable: r.Retryable()})
	}
	ends, seen := h.recent.list()
	for i, e := range ends {
		s.Recent = append(s.Recent, End{
			Number: seen - uint64(i),
			At:     e.At,
			Addr:   h.names.of(e.Remote),
			Reason: e.Reason.String(),
			Age:    e.Age.Seconds(),
		})
	}
	s.Ended = seen
	return s
}

// ask asks connections for their addresses, all at once, and waits for askTimeout at
// most. One that has not answered may be asked in vain for as long as it likes, but
// then there are fewer who can be asked.
func (h *Handler) ask(conns []any) []net.Addr {
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	type answer struct {
		conn int
		addr net.Addr
	}
	answers := make(chan answer, len(conns))
	asked := 0
	for i, conn := range conns {
		select {
		case h.asking <- struct{}{}:
		default:
			continue
		}
		asked++
		go func() {
			var addr net.Addr
			defer func() {
				_ = recover() // a panic of the connection is no address
				<-h.asking
				answers <- answer{i, addr}
			}()
			addr = h.keeper.RemoteAddr(ctx, conn)
		}()
	}
	addrs := make([]net.Addr, len(conns))
	for range asked {
		select {
		case a := <-answers:
			addrs[a.conn] = a.addr
		case <-ctx.Done():
			return addrs
		}
	}
	return addrs
}

// idlest returns what there is to show of connections, less those that have ended.
func (h *Handler) idlest(conns []any, addrs []net.Addr) []Idle {
	idlest := []Idle{}
	for i, conn := range conns {
		info, guarded := h.keeper.Info(conn)
		at, reason, open := h.keeper.Deadline(conn)
		if !guarded || !open {
			continue
		}
		idle := Idle{
			Addr:      h.names.of(addrs[i]),
			Idle:      info.Idle.Seconds(),
			Timeout:   info.Timeout.Seconds(),
			Age:       info.Age.Seconds(),
			Ends:      reason.String(),
			RoundTrip: info.RoundTrip.Seconds(),
			Held:      info.Held,
		}
		if left := time.Until(at); left < never {
			seconds := max(left, 0).Seconds()
			idle.Left = &seconds
		}
		idlest = append(idlest, idle)
	}
	return idlest
}

func connectionsOf(s keepalive.Stats) Connections {
	c := Connections{
		Open:       s.Conns,
		Leaving:    s.Leaving,
		Opened:     s.Opened,
		Refused:    Refused(s.Refused),
		Closed:     map[string]uint64{},
		WouldClose: map[string]uint64{},
		Spared:     s.Spared,
		Probes:     s.Probes,
		Panics:     s.Panics,
	}
	for _, r := range keepalive.Reasons() {
		c.Closed[r.String()] = s.Closed[r]
		c.WouldClose[r.String()] = s.WouldClose[r]
	}
	return c
}

func wheelOf(s wheel.Stats, fill []wheel.Level, tick time.Duration) Wheel {
	w := Wheel{
		Tick:    tick.Seconds(),
		Pending: s.Pending,
		Due:     s.Due,
		Backlog: s.Backlog,
		Added:   s.Added,
		Expired: s.Expired,
		Saved:   s.Saved,
		Refiled: s.Refiled,
		Panics:  s.Panics,
		Late:    histogramOf(s.Late),
		Passes:  histogramOf(s.Passes),
		Stalls:  s.Stalls,
		Stalled: s.Stalled.Seconds(),
	}
	for _, l := range fill {
		w.Levels = append(w.Levels, Level{Span: l.Span.Seconds(), Hand: l.Hand, Slots: l.Slots})
	}
	return w
}

func histogramOf(h wheel.Histogram) Histogram {
	shown := Histogram{
		Count:   h.Count,
		Sum:     h.Sum.Seconds(),
		Max:     h.Max.Seconds(),
		P50:     h.Quantile(0.5).Seconds(),
		P99:     h.Quantile(0.99).Seconds(),
		Buckets: []Bucket{},
	}
	filled := len(h.Buckets)
	for filled > 0 && h.Buckets[filled-1] == 0 {
		filled--
	}
	for i, n := range h.Buckets[:filled] {
		bucket := Bucket{Count: n}
		if i < len(h.Buckets)-1 {
			limit := h.Bound(i).Seconds()
			bucket.Limit = &limit
		}
		shown.Buckets = append(shown.Buckets, bucket)
	}
	return shown
}

func adviceOf(a keepalive.Advice) *Advice {
	advice := &Advice{Timeout: a.Timeout.Seconds(), Silences: []Silences{}, NearMisses: a.NearMisses}
	for _, s := range a.Silences {
		advice.Silences = append(advice.Silences, Silences{Share: s.Share, Length: s.Length.Seconds(), Count: s.Count})
	}
	return advice
}
