package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/heartwheel-go/heartwheel/fleet"
	"github.com/heartwheel-go/heartwheel/internal/webpage"
)

//go:embed page
var files embed.FS

var page = webpage.Make(files, "page/main.js")

const (
	// asking is how long a request may take.
	asking = 5 * time.Second

	// browsing is how long a connection may be without a request. The page asks every second.
	browsing = time.Minute
)

// web serves the page and its data.
type web struct {
	demo  *demo
	http  *http.Server
	ended chan struct{}
}

func newWeb(ln net.Listener, d *demo) *web {
	w := &web{demo: d, ended: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", w.page)
	mux.HandleFunc("GET /state", w.state)
	mux.HandleFunc("GET /count", w.count)
	mux.HandleFunc("GET /presence/{session}", w.presence)
	w.http = &http.Server{Handler: mux, ReadTimeout: asking, WriteTimeout: 2 * asking, IdleTimeout: browsing}
	go func() {
		defer close(w.ended)
		_ = w.http.Serve(ln) // until close
	}()
	return w
}

func (w *web) close() {
	_ = w.http.Close()
	<-w.ended
}

func (w *web) page(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Content-Security-Policy", page.Policy)
	rw.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = rw.Write(page.HTML)
}

// presence is the answer to a lookup.
type presence struct {
	Session  string    `json:"session"`
	Node     string    `json:"node"`
	Epoch    int64     `json:"epoch"`
	Since    time.Time `json:"since"`
	Until    time.Time `json:"until"` // of its lease
	Detached bool      `json:"detached"`
}

func (w *web) presence(rw http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), asking)
	defer cancel()
	p, err := w.demo.watch.Lookup(ctx, r.PathValue("session"))
	answer(rw, presence{p.Session, p.Node, p.Epoch, p.Since, p.Until, p.Detached}, err)
}

func (w *web) count(rw http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), asking)
	defer cancel()
	n, err := w.demo.watch.Count(ctx)
	answer(rw, map[string]int64{"sessions": n}, err)
}

// state is everything on the page.
type state struct {
	Story    []string    `json:"story"`
	Online   int64       `json:"online"`
	Verdict  verdict     `json:"verdict"`
	Nodes    []nodeState `json:"nodes"`
	Sessions []whereIs   `json:"sessions"`
	Events   []happening `json:"events"` // the newest first
}

type nodeState struct {
	Name     string    `json:"name"`
	Addr     string    `json:"addr"`
	State    condition `json:"state"`
	Sessions int       `json:"sessions"`
	Renewals uint64    `json:"renewals"`
	Refused  uint64    `json:"refused"`
	Told     uint64    `json:"told"`
}

// whereIs is the place of a session in Redis.
type whereIs struct {
	ID       string `json:"id"`
	Node     string `json:"node"` // or empty
	Detached bool   `json:"detached,omitempty"`
}

func (w *web) state(rw http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), asking)
	defer cancel()
	s, err := w.demo.state(ctx)
	answer(rw, s, err)
}

func (d *demo) state(ctx context.Context) (s state, err error) {
	ids := d.ledger.ids()
	all, err := d.watch.LookupAll(ctx, ids)
	if err != nil {
		return s, err
	}
	at := make(map[string]int)
	for i, where := range all {
		s.Sessions = append(s.Sessions, whereIs{ids[i], where.Node, where.Detached})
		if where.Epoch != 0 {
			s.Online++
			at[where.Node]++
		}
	}
	for _, n := range d.town.all() {
		is, f := n.now()
		s.Nodes = append(s.Nodes, nodeState{n.name, n.addr, is, at[n.name], f.Renewals, f.Refused, f.Told})
	}
	s.Verdict, s.Events = d.ledger.judge(), d.ledger.latest()
	d.mu.Lock()
	defer d.mu.Unlock()
	s.Story = slices.Clone(d.lines)
	return s, nil
}

func answer(rw http.ResponseWriter, value any, err error) {
	rw.Header().Set("Content-Type", "application/json")
	rw.Header().Set("Cache-Control", "no-store")
	rw.Header().Set("X-Content-Type-Options", "nosniff")
	if err != nil {
		status := http.StatusServiceUnavailable
		switch {
		case errors.Is(err, fleet.ErrNotFound):
			status = http.StatusNotFound
		case errors.Is(err, fleet.ErrArgument):
			status = http.StatusBadRequest
		}
		rw.WriteHeader(status)
		value = map[string]string{"error": err.Error()}
	}
	_ = json.NewEncoder(rw).Encode(value)
}
