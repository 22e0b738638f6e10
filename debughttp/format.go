package debughttp

import (
	"fmt"
	"mime"
	"net/http"
	"strconv"
	"strings"
)

// wantsJSON reports whether a request is for JSON and not for the page.
func wantsJSON(r *http.Request) (bool, error) {
	switch format := r.URL.Query().Get("format"); format {
	case "json":
		return true, nil
	case "html":
		return false, nil
	case "":
		return prefersJSON(r.Header.Values("Accept")), nil
	default:
		return false, fmt.Errorf("%w: format %.40q, must be json or html", ErrArgument, format)
	}
}

// prefersJSON reports whether an Accept header prefers application/json to text/html. With
// neither, the answer is the page.
func prefersJSON(accept []string) bool {
	var json, html float64
	for _, part := range strings.Split(strings.Join(accept, ","), ",") {
		kind, params, err := mime.ParseMediaType(part)
		if err != nil {
			continue
		}
		quality := 1.0
		if q, err := strconv.ParseFloat(params["q"], 64); err == nil {
			quality = q
		}
		switch kind {
		case "application/json":
			json = quality
		case "text/html":
			html = quality
		}
	}
	return json > html
}
