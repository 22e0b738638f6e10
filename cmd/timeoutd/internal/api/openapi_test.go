package api

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Every route is in the description, and the other way round, with what it says of tokens.
func TestDescriptionHasWhatThereIs(t *testing.T) {
	doc, err := description()
	require.NoError(t, err)
	var inFile []string
	open := make(map[string]bool)
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			inFile = append(inFile, method+" "+path)
			open[method+" "+path] = operation.Security != nil && len(*operation.Security) == 0
		}
	}
	h := &Handler{cfg: Config{Page: http.NotFoundHandler()}.withDefaults()}
	routes, err := h.routes()
	require.NoError(t, err)
	var inMux []string
	for _, route := range routes {
		pattern := strings.ReplaceAll(route.pattern, "{$}", "")
		inMux = append(inMux, pattern)
		require.Equal(t, route.scope == Open, open[pattern], pattern)
		operation := doc.Paths.Value(strings.Fields(pattern)[1]).GetOperation(strings.Fields(pattern)[0])
		require.Equal(t, route.scope == Write, strings.HasSuffix(operation.Summary, "(write)"), pattern)
		require.Equal(t, route.scope == Admin, strings.HasSuffix(operation.Summary, "(admin)"), pattern)
	}
	slices.Sort(inFile)
	slices.Sort(inMux)
	require.Equal(t, inMux, inFile)
}
