package readme

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// The rows of docs/architecture.md name a function and its file.
func TestFunctionsOfTheArchitectureExist(t *testing.T) {
	page, err := os.ReadFile("../../docs/architecture.md")
	require.NoError(t, err)
	rows := regexp.MustCompile("(?m)^\\| \\d+ \\| `(\\w+)`.*\\| (\\S+\\.go) \\|$").FindAllSubmatch(page, -1)
	require.GreaterOrEqual(t, len(rows), 20)
	files := map[string]bool{}
	for _, row := range rows {
		function, path := string(row[1]), string(row[2])
		require.True(t, declares(t, path, function), "%s has no function %s", path, function)
		files[path] = true
	}
	require.LessOrEqual(t, len(files), 12)
}

func declares(t *testing.T, path, function string) bool {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../..", path), nil, parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Name.Name == function {
			return true
		}
	}
	return false
}
