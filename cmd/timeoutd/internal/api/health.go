package api

import (
	"context"
	_ "embed"
	"net/http"
	"time"
)

// readyTimeout is how long the engine may take for /readyz.
const readyTimeout = 3 * time.Second

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
	why, err := h.ready.get(r.Context(), func() (error, bool) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), readyTimeout)
		defer cancel()
		_, err := h.centre.Topics(ctx) // an error of an engine that can't write, too
		return err, err == nil
	})
	if err != nil {
		return problem(http.StatusServiceUnavailable, "the engine does not answer: %v", err)
	}
	if why != nil {
		return problem(http.StatusServiceUnavailable, "the engine does not answer")
	}
	return ok(w)
}

func ok(w http.ResponseWriter) error {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
	return nil
}
