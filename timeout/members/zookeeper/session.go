package zookeeper

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-zookeeper/zk"
)

// session is a connection to ZooKeeper; go-zookeeper makes it again when it breaks. When the
// server has ended the session, go-zookeeper goes on with a new one, without the old znodes.
type session struct {
	conn   *zk.Conn
	dialer *dialer
	ttl    time.Duration
	known  bool // the server has accepted the credentials; node.turn guards it, but for Watch

	once  sync.Once
	ended chan struct{} // closed when the connection's events have ended
}

// connect begins a session, and does not wait for a server. The session ends with its first connection if lost is not
// nil: see dialer.
func (m *Members) connect(ttl time.Duration, lost chan struct{}) (*session, error) {
	d := &dialer{dial: m.cfg.Dial, limit: max(ttl, time.Second), lost: lost}
	conn, events, err := zk.Connect(m.servers, ttl,
		zk.WithDialer(d.connect), zk.WithHostProvider(new(provider)),
		zk.WithLogger(logger{m.cfg.Logger}), zk.WithLogInfo(false))
	if err != nil {
		return nil, err
	}
	s := &session{conn: conn, dialer: d, ttl: ttl, ended: make(chan struct{})}
	m.running.Go(func() {
		for range events { // the events end with the connection
		}
		close(s.ended)
	})
	return s, nil
}

// introduce sends the credentials, once: go-zookeeper repeats them on each new connection.
func (s *session) introduce(cfg Config) error {
	if s.known || cfg.Scheme == "" {
		return nil
	}
	err := s.conn.AddAuth(cfg.Scheme, cfg.Auth)
	s.known = err == nil
	return err
}

// close ends the session and all its calls. If a server hears of it within a second, the znodes
// go at once. close is idempotent, and each call waits for the end.
func (s *session) close() {
	s.once.Do(func() {
		s.conn.Close()
		s.dialer.shut()
	})
	<-s.ended
}

// dialer makes the connections of one session.
type dialer struct {
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	limit time.Duration // limit of each read, and of each write
	taken atomic.Int64  // connections since the last successful heartbeat
	lost  chan struct{} // if it is not nil, the dialer makes one connection, and puts an element here after that

	mu   sync.Mutex
	conn net.Conn
	done bool
}

// connect is a zk.Dialer. It closes the previous connection: go-zookeeper leaves it open when the
// session has ended.
func (d *dialer) connect(network, address string, timeout time.Duration) (net.Conn, error) {
	if d.lost != nil && d.taken.Load() > 0 {
		select {
		case d.lost <- struct{}{}:
		default:
		}
		return nil, net.ErrClosed
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	conn, err := d.dial(ctx, network, address)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn != nil {
		d.conn.Close()
		d.conn = nil
	}
	if err != nil {
		return nil, err
	}
	if d.done {
		conn.Close()
		return nil, net.ErrClosed
	}
	d.taken.Add(1)
	d.conn = &limited{conn, d.limit}
	return d.conn, nil
}

// shut closes the connection, and refuses any other.
func (d *dialer) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = true
	if d.conn != nil {
		d.conn.Close()
	}
}

// limited is a connection with deadlines at most limit away. go-zookeeper waits for a session for
// nearly seven times its timeout. Without the limit, a hanging server would get all that time
// before go-zookeeper asks another one.
type limited struct {
	net.Conn
	limit time.Duration
}

func (c *limited) SetReadDeadline(t time.Time) error { return c.Conn.SetReadDeadline(c.near(t)) }

func (c *limited) SetWriteDeadline(t time.Time) error { return c.Conn.SetWriteDeadline(c.near(t)) }

func (c *limited) near(t time.Time) time.Time {
	if latest := time.Now().Add(c.limit); t.After(latest) {
		return latest
	}
	return t
}

// provider is a zk.HostProvider that leaves the look-up of names to the dialer. The provider of
// go-zookeeper looks them up once, and never learns that a server has moved.
type provider struct {
	mu      sync.Mutex
	servers []string
	at      int
	tried   int // servers tried since the last session
}

func (p *provider) Init(servers []string) error {
	p.servers = servers
	return nil
}

func (p *provider) Len() int { return len(p.servers) }

// Next returns the next server. It also reports whether the client has just tried all of them.
func (p *provider) Next() (server string, all bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	server = p.servers[p.at%len(p.servers)]
	all = p.tried > 0 && p.tried%len(p.servers) == 0
	p.at++
	p.tried++
	return server, all
}

func (p *provider) Connected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tried = 0
}

// logger is a zk.Logger.
type logger struct{ to *slog.Logger }

func (l logger) Printf(format string, args ...any) {
	if l.to.Enabled(context.Background(), slog.LevelDebug) {
		l.to.Debug("timeout/members/zookeeper: " + fmt.Sprintf(format, args...))
	}
}
