package debughttp

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// scanStride is after how many connections a look lets other goroutines run: some 100 µs.
const scanStride = 512

// eachOpen calls f with each open connection in question, until f returns false.
func (h *Handler) eachOpen(ctx context.Context, q *query, f func(e *entry) bool) {
	var e entry // one for all: nothing is allocated for each
	seen, now := 0, keeping.Now(h.keeper)
	for g := range h.keeper.Guards() {
		if seen++; seen%scanStride == 0 {
			runtime.Gosched()
			if ctx.Err() != nil {
				return
			}
		}
		c, ok := keeping.Look(g)
		if !ok {
			continue
		}
		e.Conn, e.guard = c, g
		if q.matches(h, &e, now) && !f(&e) {
			return
		}
	}
}

// eachEnded calls f with each kept end in question.
func (h *Handler) eachEnded(q *query, f func(e *entry)) {
	ends, _ := h.recent.list()
	for i := range ends {
		e := entry{end: &ends[i]}
		e.ID, e.Remote = ends[i].ID, ends[i].Remote
		if q.matches(h, &e, 0) {
			f(&e)
		}
	}
}

// list returns the page of connections wanted by a query.
func (h *Handler) list(ctx context.Context, q *query) (Listing, error) {
	begin := time.Now()
	s := selection{q: q}
	if q.closed {
		h.eachEnded(q, s.offer)
	} else if err := h.looks.do(ctx, func() {
		begin = time.Now()
		h.eachOpen(ctx, q, func(e *entry) bool { s.offer(e); return q.id == 0 })
	}); err != nil {
		return Listing{}, err
	}
	if ctx.Err() != nil {
		return Listing{}, context.Cause(ctx)
	}
	entries, preceding := s.page()
	l := Listing{
		Name:  printable(h.cfg.Name),
		State: q.shown, Sort: q.sort.name, Order: q.order, Limit: q.limit,
		Open: h.keeper.Len(), Total: s.total, Before: preceding,
		AddrsHidden: h.cfg.HideAddrs, Labels: h.cfg.Label != nil, CanClose: h.cfg.CloseToken != "",
		Reasons: reasonNames(), Connections: []Connection{},
	}
	l.Kept, l.Ended = h.recent.counts()
	if n := len(entries); n > 0 && preceding > 0 {
		l.Previous = entries[0].place.String()
	}
	if n := len(entries); n > 0 && preceding+n < s.total {
		l.Next = entries[n-1].place.String()
	}
	traffic := h.ask(entries)
	now := time.Now()
	for i := range entries {
		if e := &entries[i]; e.end != nil {
			l.Connections = append(l.Connections, h.closedRow(e))
		} else if row, open := h.openRow(e, now); open {
			row.tell(traffic[i])
			l.Connections = append(l.Connections, row)
		}
	}
	l.At, l.Took = now, time.Since(begin).Seconds()
	return l, nil
}

// answerList answers a request for connections as JSON.
func (h *Handler) answerList(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r.URL.Query(), h.cfg.HideAddrs)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	l, err := h.list(r.Context(), &q)
	if err != nil {
		w.Header().Set("Retry-After", "2")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	body, err := json.Marshal(l)
	if err != nil {
		http.Error(w, fmt.Sprintf("debughttp: encoding connections: %v", err), http.StatusInternalServerError)
		return
	}
	answer(w, r, "application/json", body)
}

// openRow describes an open connection. open is false if it has ended meanwhile.
func (h *Handler) openRow(e *entry, now time.Time) (row Connection, open bool) {
	info, guarded := e.guard.Info()
	at, reason, open := e.guard.Deadline()
	if !guarded || !open {
		return row, false
	}
	timeout := e.Timeout.Seconds()
	row = Connection{
		ID: e.ID, Addr: h.names.of(e.Remote), Label: h.labelOf(e), Key: h.names.user(e.Key), State: e.State,
		OpenedAt: now.Add(-info.Age), Age: info.Age.Seconds(), Idle: info.Idle.Seconds(), Timeout: &timeout,
		Left: secondsLeft(at, reason, info.Held), Reason: nameOf(reason),
	}
	if e.RoundTrip > 0 {
		seconds := e.RoundTrip.Seconds()
		row.RoundTrip, row.Measured = &seconds, "probe"
	}
	return row, true
}

// secondsLeft returns how long it is until a deadline, or nil without an end. While a connection
// is held, its silence is none.
func secondsLeft(at time.Time, reason keepalive.Reason, held bool) *float64 {
	left := time.Until(at)
	if reason == 0 || left >= never || held && reason != keepalive.ReasonMaxAge {
		return nil
	}
	seconds := max(left, 0).Seconds()
	return &seconds
}

// nameOf returns the name of a reason, or "" without one.
func nameOf(reason keepalive.Reason) string {
	if reason == 0 {
		return ""
	}
	return reason.String()
}

// closedRow describes an ended connection.
func (h *Handler) closedRow(e *entry) Connection {
	end := e.end
	return Connection{
		ID: end.ID, Addr: h.names.of(end.Remote), Label: end.label, State: "closed",
		OpenedAt: end.At.Add(-end.Age), Age: end.Age.Seconds(), Idle: end.Idle.Seconds(),
		ClosedAt: &end.At, Reason: end.Reason.String(),
	}
}
