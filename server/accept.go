package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/panjf2000/gnet/v2"
)

const (
	// How long to wait after an accept has failed, most often for want of descriptors: from
	// minPause to maxPause, twice as long each time.
	minPause = 5 * time.Millisecond
	maxPause = time.Second
)

// serveListener runs gnet on the connections of Config.Listener until it stops. A server of
// gnet must open its socket itself. But a client of gnet has the same event loops, and takes
// any connection.
func (s *Server) serveListener(h *handler) error {
	defer s.listener.Close()
	cfg := s.cfg.Load()
	client, err := gnet.NewClient(newGate(h, s),
		gnet.WithNumEventLoop(cfg.Loops),
		gnet.WithLogger(logger{s.log}),
	)
	if err != nil {
		return fmt.Errorf("server: %w", err)
	}
	if err := client.Start(); err != nil {
		return fmt.Errorf("server: %w", err)
	}
	s.acceptor = newAcceptor(s, client, cfg.Loops)
	s.engine = s.acceptor
	s.listening(s.listener.Addr())
	<-s.acceptor.end
	return s.acceptor.err
}

// acceptor hands the connections of a listener to gnet.
type acceptor struct {
	*Server
	client  *gnet.Client
	running sync.WaitGroup
	stopped chan struct{} // closed by stop
	once    sync.Once

	end     chan struct{} // closed by Stop, when gnet has stopped
	endOnce sync.Once
	err     error // set before end is closed
}

// newAcceptor starts as many goroutines as there are loops: each waits until a loop has taken
// its connection, so all loops can be busy at the same time.
func newAcceptor(s *Server, client *gnet.Client, loops int) *acceptor {
	a := &acceptor{Server: s, client: client, stopped: make(chan struct{}), end: make(chan struct{})}
	for range loops {
		a.running.Go(a.run)
	}
	return a
}

// run accepts until the listener is closed.
func (a *acceptor) run() {
	pause := minPause
	for {
		switch err := a.accept(); {
		case err == nil:
			pause = minPause
		case a.isStopped():
			return
		case errors.Is(err, net.ErrClosed): // by somebody else
			go a.fail(fmt.Errorf("server: %w", err)) // it waits for this goroutine
			return
		default:
			a.log.Warn("server: accepting", "error", err, "pause", pause)
			a.wait(pause)
			pause = min(2*pause, maxPause)
		}
	}
}

// accept takes a connection, and waits until an event loop has it: so none is lost when
// gnet stops.
func (a *acceptor) accept() error {
	c, err := a.listener.Accept()
	if err != nil {
		return err
	}
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetKeepAlive(false) // as with Addr: the wheel asks for more
	}
	if _, err := a.client.Enroll(c); err != nil {
		return errors.New("a connection is lost: " + err.Error()) // whatever it is, not the listener's end
	}
	return nil
}

func (a *acceptor) wait(d time.Duration) {
	select {
	case <-time.After(d):
	case <-a.stopped:
	}
}

func (a *acceptor) isStopped() bool {
	select {
	case <-a.stopped:
		return true
	default:
		return false
	}
}

// stop ends the accepting, and waits until what was accepted is known to gnet.
func (a *acceptor) stop() {
	a.once.Do(func() {
		close(a.stopped)
		_ = a.listener.Close()
	})
	a.running.Wait()
}

// Stop stops gnet. It may be called more than once.
func (a *acceptor) Stop(context.Context) error {
	a.fail(nil)
	return nil
}

// fail stops gnet because of an error, or on request.
func (a *acceptor) fail(err error) {
	a.stop()
	a.endOnce.Do(func() {
		a.err = errors.Join(err, a.client.Stop())
		close(a.end)
	})
}
