package api

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Every route is in the description, and the other way round, with its scope and parameters.
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
	routes := start(t, Config{}).handler.routes()
	var inMux []string
	for _, route := range routes {
		pattern, params := route.split()
		pattern = strings.ReplaceAll(pattern, "{$}", "")
		inMux = append(inMux, pattern)
		require.Equal(t, route.scope == Open, open[pattern], pattern)
		item := doc.Paths.Value(strings.Fields(pattern)[1])
		operation := item.GetOperation(strings.Fields(pattern)[0])
		var described []string
		for _, param := range append(slices.Clone(item.Parameters), operation.Parameters...) {
			if param.Value.In == "query" {
				described = append(described, param.Value.Name)
			}
		}
		require.ElementsMatch(t, params, described, pattern)
		require.Equal(t, route.scope == Work, strings.HasSuffix(operation.Summary, "(work)"), pattern)
		require.Equal(t, route.scope == Write, strings.HasSuffix(operation.Summary, "(write)"), pattern)
		require.Equal(t, route.scope == Admin, strings.HasSuffix(operation.Summary, "(admin)"), pattern)
	}
	slices.Sort(inFile)
	slices.Sort(inMux)
	require.Equal(t, inMux, inFile)
}

// The limits of a topic in the description are those in the code.
func TestDescriptionHasTheLimits(t *testing.T) {
	doc, err := description()
	require.NoError(t, err)
	for _, name := range []string{"Topic", "TopicCounts"} {
		fields := doc.Components.Schemas[name].Value.Properties
		require.EqualValues(t, engine.MaxSlots, *fields["slots"].Value.Max)
		require.EqualValues(t, engine.MaxRetries, *fields["retries"].Value.Max)
		require.EqualValues(t, engine.MaxConcurrency, *fields["concurrency"].Value.Max)
		require.EqualValues(t, engine.MaxRate, *fields["rate"].Value.Max)
		require.EqualValues(t, engine.MaxPriority, *fields["priority"].Value.Max)
		require.EqualValues(t, engine.MaxGlobalConcurrency, *fields["global_concurrency"].Value.Max)
		require.EqualValues(t, engine.MaxRate, *fields["global_rate"].Value.Max)
		require.EqualValues(t, engine.MaxSchedule, *fields["every"].Value.MaxLength)
		for _, field := range []string{"backoff", "backoff_max", "lease", "timeout", "retain", "retain_log"} {
			require.Equal(t, "#/components/schemas/BoundedDurationIn", fields[field].Ref, field)
		}
	}
	bounded := doc.Components.Schemas["BoundedDurationIn"].Value
	require.EqualValues(t, engine.MaxDuration.Milliseconds(), *bounded.OneOf[1].Value.Max)
	require.Equal(t, fmt.Sprintf("At most %.0fh.", engine.MaxDuration.Hours()), bounded.Description)
	id := doc.Components.Schemas["ID"].Value
	require.EqualValues(t, engine.MaxID, *id.MaxLength) // letters, of which some have several bytes
	require.Contains(t, id.Description, fmt.Sprintf("At most %d bytes", engine.MaxID))
	for text, fits := range map[string]bool{".": false, "..": false, "...": true, "..a": true, ".a": true, "a": true, "a.": true, "/": true, "ü": true} {
		require.Equal(t, fits, regexp.MustCompile(id.Pattern).MatchString(text), text)
		require.Equal(t, fits, timeout.Key{Topic: "t", ID: text}.Check() == nil, text)
	}
}
