// Package readme checks that the code in the README and docs compiles: each of their blocks of Go is a
// copy of lines of an example.
package readme

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSnippetsAreCopiesOfExamples(t *testing.T) {
	var examples strings.Builder
	for _, pattern := range []string{
		"../../*/example_test.go", "../../*/*/example_test.go", "../../examples/users/*/main.go",
		"../../keepalive/udpkeepalive/session.go", // the example of an adapter
	} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			examples.Write(b)
		}
	}
	pages, err := filepath.Glob("../../docs/*.md")
	require.NoError(t, err)
	for _, pattern := range []string{"../../*/README.md", "../../*/*/README.md", "../../*/docs/*.md", "../../*/*/docs/*.md"} {
		ofPackages, err := filepath.Glob(pattern)
		require.NoError(t, err)
		pages = append(pages, ofPackages...)
	}
	blocks := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, block := range regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			require.True(t, strings.Contains(examples.String(), block[1]), "%s: in no example:\n%s", page, block[1])
			blocks++
		}
	}
	require.Positive(t, blocks)
}
