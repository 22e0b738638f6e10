package debughttp

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/wheel"
	"github.com/heartwheel-go/heartwheel/wheel/histogram"
)

// encoded takes a snapshot and returns its JSON and its cost in time. The cost is without the look
// for the idlest, since that has its own pace.
func (h *Handler) encoded() (body []byte, cost time.Duration, err error) {
	begin := time.Now()
	s := h.take()
	looking := time.Now()
	h.look.refresh(h)
	looked := time.Since(looking)
	s.Idlest, s.IdlestAt = h.look.idlest, h.look.at
	if body, err = json.Marshal(s); err != nil {
		err = fmt.Errorf("debughttp: encoding a snapshot: %w", err)
	}
	return body, time.Since(begin) - looked, err
}

// take takes all of a snapshot but the idlest.
func (h *Handler) take() Snapshot {
	ends, seen := h.recent.list() // before the counts, so each of them is counted as opened
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
		Wheel:       wheelOf(stats.Wheel),
		Ages:        histogramOf(stats.Ages),
		RoundTrips:  histogramOf(stats.RoundTrips),
		Settings:    settingsOf(cfg),
		Recent:      []End{},
	}
	if cfg.Advise {
		s.Advice = adviceOf(cfg.Timeout, stats)
	}
	if h.cfg.Streams != nil {
		of := h.cfg.Streams.Stats()
		s.Streams = &Streams{Open: of.Streams, Comments: of.Comments, Withheld: of.Withheld, Slow: of.Slow, Failed: of.Failed}
	}
	for _, r := range keepalive.Reasons() {
		s.Reasons = append(s.Reasons, Reason{Name: r.String(), Text: textOf(r), Retryable: r.Retryable()})
	}
	for _, e := range ends[:min(len(ends), maxRecentShown)] {
		s.Recent = append(s.Recent, End{
			ID:     e.ID,
			Number: e.number,
			At:     e.At,
			Addr:   h.names.of(e.Remote),
			Reason: e.Reason.String(),
			Age:    e.Age.Seconds(),
		})
	}
	s.Ended = seen
	return s
}

func connectionsOf(s keepalive.Stats) Connections {
	c := Connections{
		Open:       s.Conns,
		Leaving:    s.Leaving,
		Opened:     s.Opened,
		Refused:    Refused{Full: s.RefusedFull, PerKey: s.RefusedPerKey, Draining: s.RefusedDrain, PerUser: s.RefusedPerUser},
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

func wheelOf(s wheel.Stats) Wheel {
	w := Wheel{
		Tick:    s.Tick.Seconds(),
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
	for i, slots := range s.Levels {
		unit := s.Units[i]
		w.Levels = append(w.Levels, Level{
			Span:  float64(unit) * s.Tick.Seconds(),
			Hand:  int(s.Now / unit % uint64(len(slots))),
			Slots: slots,
		})
	}
	return w
}

func histogramOf(h histogram.Durations) Histogram {
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

func adviceOf(timeout time.Duration, stats keepalive.Stats) *Advice {
	advice := &Advice{Timeout: timeout.Seconds(), Silences: []Silences{}, NearMisses: stats.NearMisses}
	for _, s := range stats.Silences {
		advice.Silences = append(advice.Silences, Silences{Share: s.Share, Length: s.Length.Seconds(), Count: s.Count})
	}
	return advice
}
