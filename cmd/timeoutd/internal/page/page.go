// Package page is the page of a timeout centre: what there is, who does it, what has gone
// wrong, and buttons for it. It has no build step, asks nobody but where it came from, and
// no text becomes markup in it. What it shows comes from package api, as JSON.
package page

import (
	"embed"
	"net/http"
	"strconv"

	"github.com/heartwheel-go/heartwheel/internal/webpage"
)

//go:embed page
var files embed.FS

var page = webpage.Make(files, "page/ask.js", "page/topics.js", "page/task.js", "page/tasks.js", "page/main.js")

// Handler returns what serves the page, which is the same for everybody.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", page.Policy)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(page.HTML)))
		if r.Method != http.MethodHead {
			_, _ = w.Write(page.HTML)
		}
	})
}
