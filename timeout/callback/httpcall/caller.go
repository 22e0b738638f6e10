package httpcall

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/callback"
)

// Kind is the kind of a [Caller]'s callbacks.
const Kind = "http"

const (
	dialTimeout = 10 * time.Second
	idleTime    = 30 * time.Second // less than most servers keep an idle connection
	maxIdle     = 1000
	maxHeader   = 64 << 10 // bytes of an answer's head

	// A connection of HTTP/2 is shared: if the other side silently disappears, all calls on the
	// connection wait in vain until a ping fails.
	pingAfter   = 10 * time.Second
	pingTimeout = 5 * time.Second
)

var _ timeout.Caller = (*Caller)(nil)

// Caller makes callbacks over HTTP/1.1 and HTTP/2. Make one with [New]. Its methods may be
// called by several goroutines at the same time.
type Caller struct {
	cfg       Config
	guard     guard
	dialer    net.Dialer
	transport *http.Transport

	closing context.Context // ends all calls and dials
	close   context.CancelFunc

	mu      sync.Mutex // guards closed; nothing is added to running after it is set
	closed  bool
	running sync.WaitGroup // calls and dials
}

// New returns a Caller. The error wraps timeout.ErrArgument and names the field and its value.
// The Caller must be closed.
func New(cfg Config) (*Caller, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	c := &Caller{cfg: cfg, guard: guard{allow: cfg.Allow, private: cfg.AllowPrivate}}
	c.closing, c.close = context.WithCancel(context.Background())
	c.dialer = net.Dialer{Timeout: dialTimeout, ControlContext: c.guard.control}
	c.transport = &http.Transport{
		Proxy:                  cfg.Proxy,
		DialContext:            c.dial,
		TLSClientConfig:        cfg.TLS.Clone(),
		TLSHandshakeTimeout:    dialTimeout,
		MaxConnsPerHost:        cfg.MaxPerHost,
		MaxIdleConnsPerHost:    cfg.MaxPerHost,
		MaxIdleConns:           maxIdle,
		IdleConnTimeout:        idleTime,
		MaxResponseHeaderBytes: maxHeader,
		DisableCompression:     true, // the answer is short, and shall stay short
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
	return c, nil
}

// Call makes a call and returns the meaning of its answer: see the package. A callback refused by
// Check is a permanent error here, and so is a name with a refused address. After Close the error
// wraps timeout.ErrClosed. The error shows the beginning of the answer's body, but never the
// URL's path, query or password.
func (c *Caller) Call(ctx context.Context, task timeout.Task, call timeout.Callback) error {
	target, err := c.check(call)
	if err != nil {
		return timeout.Permanent(err)
	}
	if !c.begin() {
		return fmt.Errorf("httpcall: %w", timeout.ErrClosed)
	}
	defer c.running.Done()
	limit := cmp.Or(call.Timeout, c.cfg.Timeout)
	inTime, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer within %v: %w", limit, context.DeadlineExceeded))
	defer cancel()
	defer context.AfterFunc(c.closing, cancel)()

	req := c.request(inTime, task, call, target)
	resp, err := c.transport.RoundTrip(req)
	if err == nil {
		err = c.errOfAnswer(resp, c.drain(resp, cancel), req.Header, call.Final)
	} else {
		err = c.errOfCall(ctx, inTime, err)
	}
	if err != nil {
		return fmt.Errorf("httpcall: %s %s: %w", req.Method, circuitOf(target), err)
	}
	return nil
}

// errOfCall returns why there is no answer.
func (c *Caller) errOfCall(ctx, inTime context.Context, err error) error {
	switch {
	case errors.Is(err, ErrRefused):
		return timeout.Permanent(err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case c.closing.Err() != nil:
		return timeout.ErrClosed
	case inTime.Err() != nil:
		return context.Cause(inTime)
	}
	return err
}

// request returns the request of a task. check has returned the target, and approved the method.
func (c *Caller) request(ctx context.Context, task timeout.Task, call timeout.Callback, target *url.URL) *http.Request {
	method, body := cmp.Or(call.Method, http.MethodPost), task.Payload
	if method == http.MethodGet || method == http.MethodHead {
		body = nil
	}
	req, _ := http.NewRequestWithContext(ctx, method, "", bytes.NewReader(body))
	req.URL, req.Host, req.Header = target, target.Host, c.header(ctx, task, call)
	if len(body) > 0 && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", contentType(body))
	}
	if user := target.User; user != nil && req.Header.Get("Authorization") == "" {
		password, _ := user.Password()
		req.SetBasicAuth(user.Username(), password)
	}
	sign(req.Header, callback.Key(task), time.Now(), body, c.cfg.Secrets)
	return req
}

// header returns the headers of the callback and of the task.
func (c *Caller) header(ctx context.Context, task timeout.Task, call timeout.Callback) http.Header {
	header := http.Header{"User-Agent": {c.cfg.UserAgent}}
	for name, value := range call.Header {
		header.Set(name, value)
	}
	for _, field := range callback.New(ctx, task).Headers() {
		header.Set(field.Name, field.Value)
	}
	// With a key of the canonical name, net/http would repeat a POST by itself on another
	// connection if the first one broke. Then one attempt would be two calls.
	key := header[callback.HeaderKey]
	header.Del(callback.HeaderKey)
	header["idempotency-key"] = key
	return header
}

func contentType(body []byte) string {
	if json.Valid(body) && utf8.Valid(body) {
		return "application/json"
	}
	return "application/octet-stream"
}

// Close ends the running calls, waits for them and closes all connections. It is idempotent and
// returns nil.
func (c *Caller) Close() error {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.close()
	c.running.Wait()
	c.transport.CloseIdleConnections()
	return nil
}

// dial is the transport's. A dial can outlive its call: then the next call gets the connection.
func (c *Caller) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if !c.begin() {
		return nil, timeout.ErrClosed
	}
	defer c.running.Done()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.closing, cancel)()
	return c.dialer.DialContext(ctx, network, address)
}

// begin reports whether a call or dial may begin. If so, running.Done must be called at its
// end.
func (c *Caller) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.running.Add(1)
	return true
}
