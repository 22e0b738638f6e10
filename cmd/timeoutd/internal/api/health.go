package api

import (
	"context"
	_ "embed"
	"errors"
	"net/http"
	"time"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// readyTimeout is how long the engine may take for /readyz. With minFresh it is less than 2 s, and
// so is the time from the engine's recovery to the first answer that says so.
const readyTimeout = time.Second

//go:embed openapi.yaml
var openAPI []byte

func (h *Handler) getOpenAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(openAPI)
	return nil
}

// getHealth says only that the process answers. An engine out of reach is no reason to end the
// process: see getReadiness.
func (h *Handler) getHealth(w http.ResponseWriter, _ *http.Request) error {
	return ok(w)
}

func (h *Handler) getReadiness(w http.ResponseWriter, r *http.Request) error {
	if err := h.cfg.Ready(); err != nil {
		return problem(http.StatusServiceUnavailable, "%v", err)
	}
	why, err := h.ready.get(r.Context())
	if err != nil {
		why = "the engine does not answer: " + err.Error()
	}
	if why != "" {
		return problem(http.StatusServiceUnavailable, "%s", why)
	}
	return ok(w)
}

// unready says why the engine is not ready. Anybody may ask, and its error can name it.
func (h *Handler) unready(ctx context.Context) (why string, ready bool) {
	switch err := h.center.Ready(ctx); {
	case err == nil:
		return "", true
	case errors.Is(err, timeout.ErrFull):
		return "the engine has no room for tasks, and finishes those that it has", false
	}
	return "the engine does not answer, or takes no changes", false
}

func ok(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
	return nil
}
