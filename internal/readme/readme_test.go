// Package readme checks that what the README shows compiles: each of its blocks
// of Go is a copy of lines of an example.
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
	readme, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	var examples strings.Builder
	for _, pattern := range []string{"../../*/example_test.go", "../../*/*/example_test.go"} {
		files, err := filepath.Glob(pattern)
		require.NoError(t, err)
		for _, file := range files {
			b, err := os.ReadFile(file)
			require.NoError(t, err)
			examples.Write(b)
		}
	}
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	require.NotEmpty(t, blocks)
	for _, block := range blocks {
		require.Contains(t, examples.String(), block[1], "in no example")
	}
}
