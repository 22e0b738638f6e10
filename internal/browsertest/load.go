// Package browsertest looks at the page of package debughttp with a real browser, while real
// connections come, speak, fall silent and go. It is a module of its own: the library does not require
// the browser's driver.
package browsertest

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// What clients and server say to each other: a byte each.
const (
	beat  = '.'
	quit  = 'q' // asks the server to end it
	long  = 'l' // asks for a timeout of its own
	probe = '?'
	pong  = '!'
)

// Load is a server and clients of all kinds.
type Load struct {
	Keeper *keepalive.Keeper

	pace    float64
	ln      net.Listener
	stop    context.CancelFunc
	ctx     context.Context
	running sync.WaitGroup
}

// Config returns the config of the Keeper, for so many connections. All times are
// multiplied by pace: at 1, clients live as they might in the world.
func Config(conns int, pace float64) keepalive.Config {
	return keepalive.Config{
		Timeout:      scaled(30*time.Second, pace),
		FirstMessage: scaled(4*time.Second, pace),
		Age:          keepalive.Age{Max: scaled(time.Hour, pace), Jitter: 0.98},
		Room:         keepalive.Room{MaxConns: conns, Full: keepalive.FullEvict},
	}
}

// Probing is Config with probes.
func Probing(conns int, pace float64) keepalive.Config {
	cfg := Config(conns, pace)
	cfg.Probe.Send = func(conn any) error {
		_, err := conn.(net.Conn).Write([]byte{probe})
		return err
	}
	cfg.Probe.After, cfg.Probe.Timeout, cfg.Probe.Count = scaled(16*time.Second, pace), scaled(3*time.Second, pace), 2
	return cfg
}

func scaled(d time.Duration, pace float64) time.Duration { return time.Duration(float64(d) * pace) }

// Start starts a server with room for so many clients, and as many and some more of them.
func Start(conns int, pace float64) (*Load, error) {
	k, err := keepalive.New(Config(conns, pace))
	if err != nil {
		return nil, err
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		k.Close()
		return nil, err
	}
	l := &Load{Keeper: k, pace: pace, ln: k.Listener(ln)}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.running.Go(l.accept)
	for i := range conns + conns/200 {
		l.running.Go(func() { l.client(i, conns) })
	}
	return l, nil
}

// Close ends the clients and the server, and waits for all of them.
func (l *Load) Close() {
	l.stop()
	l.ln.Close()
	l.running.Wait()
	l.Keeper.Close()
}

func (l *Load) accept() {
	for {
		conn, err := l.ln.Accept()
		switch {
		case errors.Is(err, net.ErrClosed):
			return
		case err == nil:
			l.running.Go(func() { l.serve(conn) })
		}
	}
}

func (l *Load) serve(conn net.Conn) {
	defer conn.Close()
	end := context.AfterFunc(l.ctx, func() { conn.Close() })
	defer end()
	buf := make([]byte, 64)
	for {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		for _, b := range buf[:n] {
			switch b {
			case quit:
				return
			case pong:
				keepalive.Of(conn).Pong()
			case long:
				d := time.Duration(rand.ExpFloat64() * float64(20*time.Minute))
				_, _ = keepalive.Of(conn).SetTimeout(scaled(time.Minute+d, l.pace))
				if rand.IntN(40) == 0 {
					defer keepalive.Of(conn).Hold()()
				}
			}
		}
	}
}

// client lives one life after the other. Its number says which kind of life.
func (l *Load) client(i, conns int) {
	host := net.IPv4(127, byte(10+i/60000), byte(i/250), byte(1+i%250))
	l.sleep(time.Duration(i) * 4 * time.Second / time.Duration(conns))
	for l.ctx.Err() == nil {
		_ = l.life(i, host)
		l.sleep(time.Duration(1+rand.IntN(4)) * time.Second)
	}
}

func (l *Load) life(i int, host net.IP) error {
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: host}}
	conn, err := dialer.DialContext(l.ctx, "tcp", l.ln.Addr().String())
	if err != nil {
		return err
	}
	defer conn.Close()
	over := make(chan struct{})
	mute := i%20 == 3
	l.running.Go(func() {
		defer close(over)
		for buf := make([]byte, 1); ; {
			if _, err := conn.Read(buf); err != nil {
				return
			}
			if buf[0] == probe && !mute {
				time.Sleep(time.Duration(rand.ExpFloat64() * float64(5*time.Millisecond)))
				_, _ = conn.Write([]byte{pong})
			}
		}
	})
	defer func() { conn.Close(); <-over }()
	return l.speak(i, conn, over)
}

// speak is what a client has to say until its connection ends.
func (l *Load) speak(i int, conn net.Conn, over <-chan struct{}) error {
	say := func(words ...byte) error { _, err := conn.Write(words); return err }
	wait := func(d time.Duration) bool {
		select {
		case <-time.After(d):
			return true
		case <-over:
			return false
		case <-l.ctx.Done():
			return false
		}
	}
	between := func(least, most time.Duration) time.Duration { return scaled(least+rand.N(most-least), l.pace) }
	every := func(least, most time.Duration) error {
		for wait(between(least, most)) {
			if err := say(beat); err != nil {
				return err
			}
		}
		return nil
	}
	if i%100 == 7 { // connects and says nothing
		wait(time.Hour)
		return nil
	}
	if err := say(beat); err != nil {
		return err
	}
	switch kind := i % 20; {
	case kind == 3: // falls silent
		if wait(between(time.Second, 20*time.Second)) {
			wait(time.Hour)
		}
		return nil
	case kind == 4: // comes and goes
		wait(between(4*time.Second, 40*time.Second))
		return nil
	case kind == 5: // is told to go
		wait(between(10*time.Second, 60*time.Second))
		err := say(quit)
		wait(time.Second)
		return err
	case kind < 3: // sleeps for long, as it has said
		if err := say(long); err != nil {
			return err
		}
		return every(30*time.Second, 60*time.Second)
	case kind < 10:
		return every(10*time.Second, 14*time.Second)
	default:
		return every(2*time.Second, 6*time.Second)
	}
}

func (l *Load) sleep(d time.Duration) {
	select {
	case <-time.After(scaled(d, l.pace)):
	case <-l.ctx.Done():
	}
}
