// Package page is the page of a timeout center. It shows the tasks, the nodes with their
// slots, and failures, and has buttons for them. It has no build step, sends requests to its
// own server only, and never makes markup of text. Its data come from package api, as JSON.
package page

import (
	"embed"
	"net/http"
	"strconv"

	"github.com/heartwheel-go/heartwheel/internal/webpage"
)

//go:embed page
var files embed.FS

var page = webpage.Make(files, "page/ask.js", "page/topics.js", "page/task.js", "page/causes.js", "page/tasks.js", "page/main.js")

// Handler returns the handler of the page. The page is the same for everybody.
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
