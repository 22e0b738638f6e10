package httpcall

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/callback"
)

// connection are the headers about the connection, not the request. With them a caller could
// make one server see another request than the next server.
var connection = []string{
	"Connection", "Content-Length", "Expect", "Host", "Http2-Settings", "Keep-Alive", "Proxy-Authenticate",
	"Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// ours are headers set only by this package, like all with the prefix callback.Prefix or
// webhookPrefix.
var ours = []string{callback.HeaderKey, "X-Idempotency-Key"}

// checkHeader returns an error wrapping timeout.ErrArgument if a callback can't have these
// headers.
func checkHeader(header map[string]string) error {
	seen := make(map[string]bool, len(header))
	for _, name := range slices.Sorted(maps.Keys(header)) {
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return fmt.Errorf("%w: header %.100q, must be a name of letters, digits and -", timeout.ErrArgument, name)
		case !httpguts.ValidHeaderFieldValue(header[name]):
			return fmt.Errorf("%w: header %.100s has a control character in its value, must have none", timeout.ErrArgument, name)
		case slices.Contains(connection, canonical):
			return fmt.Errorf("%w: header %s, must not be one of %q", timeout.ErrArgument, name, connection)
		case slices.Contains(ours, canonical) || hasPrefix(canonical, callback.Prefix) || hasPrefix(canonical, webhookPrefix):
			return fmt.Errorf("%w: header %.100s, must not be one that every call has", timeout.ErrArgument, name)
		case seen[canonical]:
			return fmt.Errorf("%w: header %.100s, must be there once: case makes no difference", timeout.ErrArgument, name)
		}
		seen[canonical] = true
	}
	return nil
}

func hasPrefix(name, prefix string) bool {
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// prefersAsync reports whether a callback asks for an answer before the work is done.
func prefersAsync(header http.Header) bool {
	for preference := range strings.SplitSeq(header.Get("Prefer"), ",") {
		name, _, _ := strings.Cut(preference, ";")
		if strings.EqualFold(strings.TrimSpace(name), "respond-async") {
			return true
		}
	}
	return false
}
