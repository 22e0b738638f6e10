package debughttp

import (
	"net/http"
	"strconv"
	"time"

	"github.com/heartwheel-go/heartwheel/keepalive"
)

// Handler answers GET and HEAD with the page, or with a [Snapshot] as JSON if the query says
// format=json or the header Accept prefers application/json. [New] makes one. Its methods may be
// called by several goroutines at the same time.
type Handler struct {
	cfg     Config
	keeper  *keepalive.Keeper
	started time.Time
	names   names
	recent  recent
	stop    func() // ends the watching
	cache   cache
	look    look

	// asking has a token for each running question for an address.
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
		recent:  recent{ends: make([]keepalive.End, 0, cfg.Recent)},
		asking:  make(chan struct{}, maxIdlest),
	}
	h.stop = k.Watch(h.recent.add)
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
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "debughttp: method "+strconv.Quote(r.Method)+" is not allowed: there is nothing to change here, only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	asJSON, err := wantsJSON(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	switch {
	case h.cache.isClosed():
		http.Error(w, errClosed.Error(), http.StatusServiceUnavailable)
	case asJSON:
		h.answerJSON(w, r)
	default:
		w.Header().Set("Content-Security-Policy", page.Policy)
		answer(w, r, "text/html; charset=utf-8", page.HTML)
	}
}

func (h *Handler) answerJSON(w http.ResponseWriter, r *http.Request) {
	body, err := h.cache.get(r.Context(), h.encoded)
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	answer(w, r, "application/json", body)
}

// Close ends the watching and the answers. It waits for a running snapshot. Closing again does
// nothing. It always returns nil.
func (h *Handler) Close() error {
	h.stop()
	h.cache.close()
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
