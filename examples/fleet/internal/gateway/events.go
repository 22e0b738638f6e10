package gateway

import (
	"context"
	"time"

	"github.com/heartwheel-go/heartwheel/fleet"
)

// Event is a line of a gateway's stdout, with the fields of all kinds. Name is the kind.
type Event struct {
	Name     string `json:"event"`
	Session  string `json:"session,omitempty"`
	Epoch    int64  `json:"epoch,omitempty"`
	Node     string `json:"node,omitempty"`
	Kind     string `json:"kind,omitempty"`
	Reason   string `json:"reason,omitempty"`
	LastSeen int64  `json:"last_seen_ms,omitempty"`
	At       int64  `json:"at_ms,omitempty"`
	Attempt  int    `json:"attempt,omitempty"`
}

// Figures is the line with the node's figures. Its name is stats.
type Figures struct {
	Name     string `json:"event"`
	Sessions int    `json:"sessions"`
	Renewals uint64 `json:"renewals"`
	Refused  uint64 `json:"refused"`
	Moved    uint64 `json:"moved"`
	Lost     uint64 `json:"lost"`
	Told     uint64 `json:"told"`
	Held     uint64 `json:"held"`
	Failures uint64 `json:"failures"`
}

// online is the fleet's OnOnline.
func (g *gateway) online(o fleet.Online) {
	kind := "new"
	switch {
	case o.Again:
		kind = "again"
	case o.Resumed:
		kind = "resumed"
	case o.Before != "":
		kind = "moved"
	}
	g.journal.add(Event{Name: "online", Session: o.Session, Epoch: o.Epoch, Node: o.Node, Kind: kind})
}

// offline is the fleet's OnOffline. An end is told when its line is written. Otherwise another
// node tells it.
func (g *gateway) offline(ctx context.Context, o fleet.Offline) error {
	return g.journal.add(Event{
		Name: "offline", Session: o.Session, Epoch: o.Epoch, Reason: o.Reason.String(), Node: o.Node,
		LastSeen: o.LastSeen.UnixMilli(), At: time.Now().UnixMilli(), Attempt: o.Attempt,
	}).await(ctx)
}

// end is the fleet's OnEnd.
func (g *gateway) end(s *fleet.Session, reason fleet.Reason) {
	g.journal.add(Event{Name: "end", Session: s.ID(), Epoch: s.Epoch(), Reason: reason.String()})
	g.bye(s, reason)
}

func (g *gateway) figures() {
	s := g.node.Stats()
	g.journal.add(Figures{
		Name: "stats", Sessions: s.Sessions, Renewals: s.Renewals, Refused: s.Refused, Moved: s.Moved,
		Lost: s.Lost, Told: s.Told, Held: s.Held, Failures: s.Failures,
	})
}

// figuresEach adds the figures every second until ctx is done.
func (g *gateway) figuresEach(ctx context.Context) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			g.figures()
		case <-ctx.Done():
			return
		}
	}
}
