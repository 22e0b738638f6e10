package debughttp

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/webpage"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

// Handler answers GET and HEAD with the page, or with a [Snapshot] as JSON if the query says
// format=json or the header Accept prefers application/json. With view=connections in the query
// it answers with the page of connections, or a [Listing]. With Config.CloseToken it also answers
// POST, and closes a connection, or sheds some. [New] makes one. Its methods may be called by several goroutines
// at the same time.
type Handler struct {
	cfg     Config
	keeper  *keepalive.Keeper
	started time.Time
	names   names
	recent  recent
	stop    func() // ends the watching
	cache   cache
	look    look
	looks   *looks

	// asking has a token for each goroutine that asks sockets.
	asking chan struct{}
}

// New makes a Handler and begins to watch the ends of the Keeper's connections. It returns
// [ErrArgument], wrapped with the value and its limit, if the config asks for something
// impossible.
func New(k *keepalive.Keeper, cfg Config) (*Handler, error) {
	cfg, err := cfg.withDefaults(k)
	if err != nil {
		return nil, err
	}
	h := &Handler{
		cfg:     cfg,
		keeper:  k,
		started: time.Now(),
		names:   newNames(cfg.HideAddrs),
		recent:  recent{ends: make([]ended, 0, cfg.Recent)},
		looks:   newLooks(),
		asking:  make(chan struct{}, maxAsking),
	}
	h.stop = k.Watch(func(end keepalive.End) { h.recent.add(end, h.label(end.Guard.Conn())) })
	return h, nil
}

// ServeHTTP answers a request. A request without access gets status 403 and the reason in a
// sentence. After Close, all requests get 503.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if why := h.refusal(r); why != "" {
		http.Error(w, why, http.StatusForbidden)
		return
	}
	if h.cache.isClosed() {
		http.Error(w, errClosed.Error(), http.StatusServiceUnavailable)
		return
	}
	switch {
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		h.show(w, r)
	case r.Method == http.MethodPost && h.cfg.CloseToken != "":
		h.answerClose(w, r)
	default:
		h.refuseMethod(w, r.Method)
	}
}

func (h *Handler) refuseMethod(w http.ResponseWriter, method string) {
	allowed, why := "GET, HEAD", "there is nothing to change here"
	if h.cfg.CloseToken != "" {
		allowed, why = "GET, HEAD, POST", "POST closes connections, and nothing else can be changed"
	}
	w.Header().Set("Allow", allowed)
	http.Error(w, fmt.Sprintf("debughttp: method %.40q is not allowed: %s, only %s", method, why, allowed), http.StatusMethodNotAllowed)
}

// show answers with one of the two views, the wheel or the connections, as a page or as JSON.
func (h *Handler) show(w http.ResponseWriter, r *http.Request) {
	asJSON, err := wantsJSON(r)
	shown := r.URL.Query().Get("view")
	if err == nil && shown != "" && shown != "connections" {
		err = fmt.Errorf("%w: view %.40q, must be connections, or empty for the wheel", ErrArgument, shown)
	}
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case asJSON && shown == "":
		h.answerJSON(w, r)
	case asJSON:
		h.answerList(w, r)
	case shown == "":
		answerPage(w, r, page)
	default:
		answerPage(w, r, connectionsPage)
	}
}

func answerPage(w http.ResponseWriter, r *http.Request, p webpage.Document) {
	w.Header().Set("Content-Security-Policy", p.Policy)
	answer(w, r, "text/html; charset=utf-8", p.HTML)
}

func (h *Handler) answerJSON(w http.ResponseWriter, r *http.Request) {
	body, err := h.cache.get(r.Context(), h.encoded)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	answer(w, r, "application/json", body)
}

// Close ends the watching and the answers. It waits for a running snapshot, and a running look
// at all connections. Closing again does nothing. It always returns nil.
func (h *Handler) Close() error {
	h.stop()
	h.cache.close()
	h.looks.close()
	return nil
}

// secure sets the headers of every answer.
func secure(header http.Header) {
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Vary", "Accept")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
}

func answer(w http.ResponseWriter, r *http.Request, contentType string, body []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}
