package api

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/page"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// Config configures a Handler. The zero value is useful.
type Config struct {
	// Tokens give access. Without any, everybody may do all, and only requests to a name of
	// loopback are answered.
	Tokens []Token

	// AnyHost allows requests to any name, even without tokens.
	AnyHost bool

	// MaxBody is the longest body of a request, in bytes, and a quarter of the limit for all
	// requests at the same time. Zero means 8 MiB; more than 1 GiB is an error.
	MaxBody int64

	// MaxBatch is how many tasks one request may name. Zero means 1000.
	MaxBatch int

	// RequestTimeout is how long the engine may take for a request. Zero means 30s.
	RequestTimeout time.Duration

	// Engine is the engine's name on the page.
	Engine string

	// OldestTransaction returns how long the oldest transaction of the engine's database has been open, for a
	// metric. Nil means no metric.
	OldestTransaction func(context.Context) (time.Duration, error)

	// Ready returns why the process should get no requests, or nil. A nil Ready means always
	// ready.
	Ready func() error

	// SignedFeedback says that the center has FeedbackKeys: then the token of a lease is all that
	// /v1/feedback and /v1/extend ask for. Otherwise they need scope work.
	SignedFeedback bool

	// Peers returns the figures of the other nodes, and an error for each address without an answer. An
	// answer of this node does no harm. Nil means that there are no addresses.
	Peers func(context.Context) ([]wire.NodeStats, []error)

	// Logger gets a line for each failure of the server's own. Nil means slog's default.
	Logger *slog.Logger
}

const maxMaxBody = 1 << 30

func (cfg Config) withDefaults() Config {
	cfg.MaxBody = cmp.Or(cfg.MaxBody, 8<<20)
	cfg.MaxBatch = cmp.Or(cfg.MaxBatch, 1000)
	cfg.RequestTimeout = cmp.Or(cfg.RequestTimeout, 30*time.Second)
	if cfg.Ready == nil {
		cfg.Ready = func() error { return nil }
	}
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	return cfg
}

// Validate returns the error of New for this config.
func (cfg Config) Validate() error {
	if cfg.MaxBody < 0 || cfg.MaxBatch < 0 || cfg.RequestTimeout < 0 {
		return fmt.Errorf("%w: MaxBody %d, MaxBatch %d and RequestTimeout %v, must not be negative", timeout.ErrArgument, cfg.MaxBody, cfg.MaxBatch, cfg.RequestTimeout)
	}
	if cfg.MaxBody > maxMaxBody {
		return fmt.Errorf("%w: MaxBody %d, must be at most %d", timeout.ErrArgument, cfg.MaxBody, maxMaxBody)
	}
	for _, token := range cfg.Tokens {
		if err := token.check(); err != nil {
			return err
		}
	}
	return nil
}

// Handler answers requests. New makes one. It may be used by several goroutines at the same
// time.
type Handler struct {
	cfg    Config
	center *timeout.Center
	access access
	mux    *http.ServeMux
	bodies *semaphore.Weighted // bytes of the bodies in memory
	leases *semaphore.Weighted // bytes of those with the token of a lease
	pulled *semaphore.Weighted // bytes of the payloads in answers to pulls
	polls  *semaphore.Weighted // pulls that wait
	got    *semaphore.Weighted // bytes of the payloads in answers with tasks
	stats  *cache[wire.Stats]
	sums   *cache[sums]
	ready  *cache[string] // why not, or empty
	since  time.Time
	silent atomic.Bool // figures of the engine are missing

	patience time.Duration // bodyPatience, except in tests
}

// New makes a Handler for a center. The error wraps timeout.ErrArgument.
func New(center *timeout.Center, cfg Config) (*Handler, error) {
	cfg = cfg.withDefaults()
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	h := &Handler{cfg: cfg, center: center, access: newAccess(cfg.Tokens, cfg.AnyHost), mux: http.NewServeMux(), since: time.Now(), patience: bodyPatience}
	h.stats, h.sums, h.ready = newCache(freshShare, countTimeout, h.look), newCache(0, sumsTimeout, h.sum), newCache(0, readyTimeout, h.unready)
	h.bodies, h.leases = semaphore.NewWeighted(bodiesAtOnce*cfg.MaxBody), semaphore.NewWeighted(bodiesAtOnce*maxFeedback)
	h.pulled, h.polls = semaphore.NewWeighted(maxPulled), semaphore.NewWeighted(maxPolls)
	h.got = semaphore.NewWeighted(maxGot)
	for _, route := range h.routes() {
		pattern, _ := route.split()
		h.mux.Handle(pattern, h.serve(route))
	}
	h.mux.Handle("/", h.serve(route{"/", Open, h.nowhere}))
	return h, nil
}

// route is a method and a path with its parameters, the scope they need, and their handler.
type route struct {
	pattern string
	scope   Scope
	serve   serving
}

// serving answers a request, or returns the error to answer with.
type serving func(w http.ResponseWriter, r *http.Request) error

// empty refuses a request with a body, where nothing reads it: a condition in it would be passed over.
func empty(next serving) serving {
	return func(w http.ResponseWriter, r *http.Request) error {
		if hasBody(r) {
			return fmt.Errorf("%w: the body, must be empty", timeout.ErrArgument)
		}
		return next(w, r)
	}
}

// hasBody reports whether a request has a body. The body can be read all the same.
func hasBody(r *http.Request) bool {
	if r.ContentLength >= 0 {
		return r.ContentLength > 0
	}
	body := bufio.NewReader(r.Body)
	_, err := body.Peek(1)
	r.Body = struct {
		io.Reader
		io.Closer
	}{body, r.Body}
	return err != io.EOF
}

// split returns the mux's pattern of a route and the names of its parameters.
func (r route) split() (pattern string, params []string) {
	pattern, names, found := strings.Cut(r.pattern, "?")
	if found {
		params = strings.Split(names, "&")
	}
	return pattern, params
}

func (h *Handler) routes() []route {
	set, move := verb[timeout.Task]{h.center.SetAll, isSet}, verb[timeout.Move]{h.center.MoveAll, isMoved}
	remove, replay := verb[timeout.Removal]{h.center.RemoveAll, isRemoved}, verb[timeout.Key]{h.center.Replay, isReplayed}
	lease := Work // needed beside the token of a lease
	if h.cfg.SignedFeedback {
		lease = Open
	}
	return []route{
		{"GET /v1/topics", Read, h.listTopics},
		{"GET /v1/topics/{topic}", Read, ofTopic(h.getTopic)},
		{"PUT /v1/topics/{topic}", Admin, ofTopic(h.changeTopic(false))},
		{"PATCH /v1/topics/{topic}", Admin, ofTopic(h.changeTopic(true))},
		{"DELETE /v1/topics/{topic}", Admin, empty(ofTopic(h.dropTopic))},
		{"POST /v1/topics/{topic}/pause", Admin, ofTopic(h.pause(true))},
		{"POST /v1/topics/{topic}/resume", Admin, empty(ofTopic(h.pause(false)))},
		{"GET /v1/topics/{topic}/dead/causes?cursor", Read, ofTopic(h.listCauses)},
		{"POST /v1/topics/{topic}/dead/replay?cause&cursor", Write, empty(clearDead(h, replay, timeout.Task.Key))},
		{"POST /v1/topics/{topic}/dead/drop?cause&cursor", Admin, empty(clearDead(h, remove, drop))},

		{"GET /v1/topics/{topic}/tasks?state&limit&cursor&metadata[]", Read, ofTopic(h.listTasks)},
		{"GET /v1/topics/{topic}/tasks/{id}", Read, ofTask(h.getTask)},
		{"PUT /v1/topics/{topic}/tasks/{id}", Write, ofTask(h.setTask)},
		{"DELETE /v1/topics/{topic}/tasks/{id}", Write, empty(ofTask(h.removeTask))},
		{"POST /v1/topics/{topic}/tasks/{id}/move", Write, ofTask(h.moveTask)},
		{"POST /v1/topics/{topic}/tasks/{id}/replay", Write, empty(ofTask(h.replayTask))},
		{"GET /v1/topics/{topic}/tasks/{id}/executions?limit", Read, ofTask(h.listExecutions)},

		{"POST /v1/tasks/get", Read, h.getTasks},
		{"POST /v1/tasks/set", Write, many(h, set, "tasks", settingsOf, keyedTask)},
		{"POST /v1/tasks/move", Write, many(h, move, "moves", movesOf, keyedMove)},
		{"POST /v1/tasks/remove", Write, many(h, remove, "keys", keysOf, checked[timeout.Removal])},
		{"POST /v1/tasks/replay", Write, many(h, replay, "keys", keysOf, checked[timeout.Key])},
		{"POST /v1/tasks/drop", Write, many(h, remove, "keys", keysOf, dropped)},
		{"POST /v1/topics/{topic}/pull", Work, ofTopic(h.pull)},
		{"POST /v1/extend", lease, ofLease(h, func(asked wire.Extend) string { return asked.Token }, h.extend)},
		{"POST /v1/feedback", lease, ofLease(h, func(told wire.Feedback) string { return told.Token }, h.feedback)},

		{"GET /v1/stats", Read, h.getStats},
		{"GET /v1/here", Peer, h.getHere},
		{"GET /v1/members", Read, h.getMembers},
		{"POST /v1/circuits/close?circuit", Admin, empty(h.closeCircuit)},
		{"GET /v1/openapi.yaml", Open, h.getOpenAPI},

		{"GET /metrics?name[]", Read, whole(h.metrics())},
		{"GET /healthz", Open, h.getHealth},
		{"GET /readyz", Open, h.getReadiness},
		{"GET /{$}", Open, whole(page.Handler())},
	}
}

// whole is for a handler that answers by itself, errors included.
func whole(handler http.Handler) serving {
	return func(w http.ResponseWriter, r *http.Request) error {
		handler.ServeHTTP(w, r)
		return nil
	}
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if !isStraight(r.URL.EscapedPath()) {
		h.serve(route{"", Open, h.crooked}).ServeHTTP(w, r)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// isStraight reports whether a path is in its shortest form, with or without a slash at its
// end. The mux would redirect any other path to that form, and a client would repeat its
// method there. So removing the task ".." of a topic would drop the topic.
func isStraight(escaped string) bool {
	clean := path.Clean("/" + escaped)
	return escaped == clean || escaped == clean+"/" && clean != "/"
}

func (h *Handler) crooked(_ http.ResponseWriter, r *http.Request) error {
	return fmt.Errorf("%w: path %.200q, must begin with / and have no segment that is empty, . or .. in it", timeout.ErrArgument, r.URL.EscapedPath())
}

// serve returns the handler of a route, with its time limit, its checks and its errors.
func (h *Handler) serve(route route) http.Handler {
	pattern, params := route.split()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), h.cfg.RequestTimeout)
		defer cancel()
		r = r.WithContext(ctx)
		err := h.access.check(r, route.scope)
		if err == nil && pattern != "/" && pattern != "" { // what is nowhere has no parameters
			err = checkQuery(r.URL, params)
		}
		if err == nil {
			err = route.serve(w, r)
		}
		if err != nil {
			h.refuse(w, r, err)
		}
	})
}

// nowhere answers requests with an unknown path, or with an unknown method for a path.
func (h *Handler) nowhere(w http.ResponseWriter, r *http.Request) error {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodPost, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = method
		if _, pattern := h.mux.Handler(other); pattern != "/" && strings.HasPrefix(pattern, method) {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		return problem(http.StatusNotFound, "there is nothing at %.200q", r.URL.Path)
	}
	if slices.Contains(allowed, http.MethodGet) {
		allowed = append(allowed, http.MethodHead)
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	return problem(http.StatusMethodNotAllowed, "method %.*q at %.200q, must be one of %q", maxShown, r.Method, r.URL.Path, allowed)
}

// secure sets the headers of all answers.
func secure(header http.Header) {
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
}
