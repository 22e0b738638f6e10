package redisrun

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

const (
	// A server has firstPatience to answer the first PING, then twice as long each time, up to
	// maxPatience. A slow server is asked again, and Close waits for maxPatience at most.
	firstPatience = 500 * time.Millisecond
	maxPatience   = 4 * time.Second

	// pingRest is the time between two PINGs: a client can refuse to connect without a wait.
	pingRest = 100 * time.Millisecond
)

// silence knows the hanging servers of a Cluster. A call to one of them fails at once. Otherwise
// each call waits for the timeout of the client, and so does the caller's work on the other
// servers. A hanging server also keeps the scripts in its socket and runs them later, for
// nobody: a PING does no harm there.
//
// The first call without an answer makes a server suspect, and starts PINGs. Calls to a suspect wait
// for the first PING. Without an answer to that the server is silent, until it answers one.
//
// A nil silence finds no server silent.
type silence struct {
	life context.Context // ends with Close, while mu is held
	end  context.CancelFunc
	asks sync.WaitGroup // goroutines with a PING

	mu      sync.Mutex // guards servers, and the begin of asks
	servers map[*goredis.Client]*suspicion
}

type suspicion struct {
	reason  error         // of a silent server
	decided chan struct{} // closed after the first PING
}

func newSilence() *silence {
	s := &silence{servers: make(map[*goredis.Client]*suspicion)}
	s.life, s.end = context.WithCancel(context.Background())
	return s
}

// of returns an error if a server is silent.
func (s *silence) of(ctx context.Context, client *goredis.Client) error {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	suspect := s.servers[client]
	s.mu.Unlock()
	if suspect == nil {
		return nil
	}
	select {
	case <-suspect.decided:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.servers[client] == suspect {
		return suspect.reason
	}
	return nil
}

// suspect starts PINGs to a server if err is that of a call without an answer.
func (s *silence) suspect(client *goredis.Client, err error) {
	if s == nil || !isSilence(err) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.servers[client] != nil || s.life.Err() != nil {
		return
	}
	suspect := &suspicion{fmt.Errorf("%s does not answer: %w", client.Options().Addr, err), make(chan struct{})}
	s.servers[client] = suspect
	s.asks.Go(func() { s.ask(client, suspect.decided) })
}

func (s *silence) ask(client *goredis.Client, decided chan<- struct{}) {
	decide := sync.OnceFunc(func() { close(decided) })
	defer decide()
	for patience := firstPatience; s.unanswered(client, patience); patience = min(2*patience, maxPatience) {
		decide()
		select {
		case <-s.life.Done():
		case <-time.After(pingRest):
		}
	}
	s.mu.Lock()
	delete(s.servers, client)
	s.mu.Unlock()
}

// unanswered sends a PING. A refusal is an answer, too.
func (s *silence) unanswered(client *goredis.Client, patience time.Duration) bool {
	ctx, cancel := context.WithTimeout(s.life, patience)
	defer cancel()
	return isSilence(client.Ping(ctx).Err())
}

// close ends the PINGs to come.
func (s *silence) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
}

// isSilence reports whether an error is a timeout: the server has not answered in time.
func isSilence(err error) bool {
	var silence net.Error
	return errors.As(err, &silence) && silence.Timeout()
}
