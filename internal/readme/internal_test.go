package readme

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A package in the first module's internal/ is used by this module, or docs/architecture.md says why it is there.
func TestInternalIsWhatTheFirstModuleNeeds(t *testing.T) {
	const internal = "github.com/heartwheel-go/heartwheel/internal/"
	packages, used := map[string]bool{}, map[string]bool{}
	require.NoError(t, filepath.WalkDir(root, func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if _, err := os.Stat(filepath.Join(file, "go.mod")); err == nil && file != filepath.Clean(root) {
				return filepath.SkipDir // another module
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") {
			return nil
		}
		in, err := filepath.Rel(filepath.Join(root, "internal"), filepath.Dir(file))
		require.NoError(t, err)
		if in = filepath.ToSlash(in); !strings.HasPrefix(in, "..") {
			packages[in] = packages[in] || !strings.HasSuffix(file, "_test.go")
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range parsed.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			require.NoError(t, err)
			if name, found := strings.CutPrefix(imported, internal); found && name != in {
				used[name] = true
			}
		}
		return nil
	}))
	page, err := os.ReadFile(filepath.Join(root, "docs", "architecture.md"))
	require.NoError(t, err)
	var shared []string
	for name, isOne := range packages {
		if isOne && !used[name] {
			shared = append(shared, name)
			require.Contains(t, string(page), "`"+path.Join("internal", name)+"`")
		}
	}
	slices.Sort(shared)
	require.Equal(t, []string{"groupcommit", "testserver"}, shared)
}
