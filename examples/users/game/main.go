// Command game is a game for many players on gnet. They race for a coin on a small board.
//
//	name ann        joins the game, unless an ann is there
//	n, s, e, w      moves by one field at the next tick
//
// A player without a move is asked, and leaves the game if there is still none.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/panjf2000/gnet/v2"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/keepalive/gnetkeepalive"
)

const (
	size    = 4 // fields of the board, each way
	longest = 64
)

type field struct{ x, y int }

type player struct {
	name  string
	at    field
	move  field
	score int
}

type game struct {
	gnet.BuiltinEventEngine
	listening func(net.Addr)
	tick      time.Duration
	over      atomic.Bool

	mu      sync.Mutex
	players map[gnet.Conn]*player
	coin    field
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := Serve(ctx, "127.0.0.1:9000", 30*time.Second, func(addr net.Addr) { log.Println("listening on", addr) })
	if err != nil {
		log.Fatal(err)
	}
}

// Serve runs the game until ctx is done.
func Serve(ctx context.Context, addr string, timeout time.Duration, listening func(net.Addr)) error {
	k, err := keepalive.New(keepalive.Config{
		Timeout:   timeout,
		Activity:  keepalive.ActivityManual, // moves, not bytes
		WriteIdle: timeout,                  // for players that take no scores
		Room:      keepalive.Room{MaxPerUser: 1},
		Probe: keepalive.Probing{Send: func(conn any) error {
			_, err := conn.(gnet.Conn).Write([]byte("your move?\n"))
			return err
		}},
		Closing: keepalive.Closing{
			Farewell: func(_ any, reason keepalive.Reason) []byte { return []byte("bye: " + reason.String() + "\n") },
			Mode:     keepalive.CloseHalf, // a move on its way must not take the farewell away
		},
	})
	if err != nil {
		return err
	}
	defer k.Close()
	g := &game{listening: listening, tick: timeout / 20, players: map[gnet.Conn]*player{}, coin: field{1, 1}}
	ended := make(chan error, 1)
	go func() {
		ended <- gnet.Run(gnetkeepalive.Wrap(g, k), "tcp://"+addr, gnet.WithMulticore(true), gnet.WithTicker(true))
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	patience, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err = k.Drain(patience, 0)
	g.over.Store(true)
	return errors.Join(err, <-ended)
}

func (g *game) OnBoot(eng gnet.Engine) gnet.Action {
	addr, err := gnetkeepalive.Addr(eng)
	if err != nil {
		log.Println(err)
		return gnet.Shutdown
	}
	g.listening(addr)
	return gnet.None
}

// OnTick moves all players, and shows them the scores.
func (g *game) OnTick() (time.Duration, gnet.Action) {
	if g.over.Load() {
		return 0, gnet.Shutdown
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var scores []string
	for _, p := range g.players {
		p.at = field{(p.at.x + p.move.x + size) % size, (p.at.y + p.move.y + size) % size}
		p.move = field{}
		if p.at == g.coin {
			p.score++
			g.coin = field{rand.IntN(size), rand.IntN(size)}
		}
		scores = append(scores, fmt.Sprintf("%s %d", p.name, p.score))
	}
	slices.Sort(scores)
	board := fmt.Appendf(nil, "coin at %d,%d; %s\n", g.coin.x, g.coin.y, strings.Join(scores, ", "))
	for c := range g.players {
		_ = c.AsyncWrite(board, nil)
	}
	return g.tick, gnet.None
}

// OnTraffic takes whole lines.
func (g *game) OnTraffic(c gnet.Conn) gnet.Action {
	for {
		buf, _ := c.Peek(-1)
		line, _, whole := bytes.Cut(buf, []byte("\n"))
		if len(line) > longest {
			return gnet.Close
		}
		if !whole {
			return gnet.None
		}
		if g.play(c, string(line)) {
			keepalive.Touch(c)
		}
		_, _ = c.Discard(len(line) + 1)
	}
}

// play reports whether the line is a sign of life.
func (g *game) play(c gnet.Conn, line string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if name, ok := strings.CutPrefix(line, "name "); ok && g.players[c] == nil {
		if guard := keepalive.Of(c); guard.SetKey(name) != nil {
			guard.Close(keepalive.ReasonFull)
			return false
		}
		g.players[c] = &player{name: name}
		return true
	}
	step, ok := map[string]field{"n": {0, -1}, "s": {0, 1}, "e": {1, 0}, "w": {-1, 0}}[line]
	p := g.players[c]
	if p == nil || !ok {
		return false
	}
	p.move = step
	return true
}

func (g *game) OnClose(c gnet.Conn, err error) gnet.Action {
	g.mu.Lock()
	defer g.mu.Unlock()
	if p := g.players[c]; p != nil {
		log.Println(p.name, "has left:", err)
		delete(g.players, c)
	}
	return gnet.None
}
