package metrics

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/sink"
)

// The tables of docs/operations.md have each metric with its labels. There, _x is short for a name that
// begins as the first one of the cell.
func TestThePageListsAllMetrics(t *testing.T) {
	page, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	var listed []string
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if !strings.HasPrefix(line, "| `heartwheel_") || len(cells) < 3 {
			continue
		}
		prefix := "heartwheel"
		for _, name := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
			for _, of := range []string{"heartwheel_heartbeat", "heartwheel_connpool", "heartwheel_sse"} {
				if strings.HasPrefix(name[1], of) {
					prefix = of
				}
			}
			listed = append(listed, prefix+strings.TrimPrefix(name[1], prefix))
		}
	}

	var there []string
	for _, descs := range []sink.Descs{all, beaterAll, poolAll, streamsAll} {
		for _, d := range descs {
			parts := regexp.MustCompile(`fqName: "([^"]+)".*variableLabels: \{([^}]*)\}`).FindStringSubmatch(d.String())
			require.Len(t, parts, 3, d.String())
			name := parts[1]
			if parts[2] != "" {
				name += "{" + parts[2] + "}"
			}
			there = append(there, name)
		}
	}
	require.ElementsMatch(t, there, listed)
}
