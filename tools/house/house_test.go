package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestAllLinesCountButThoseOfTests(t *testing.T) {
	tree := fstest.MapFS{}
	for _, name := range []string{
		"a/a.go", "a/a_windows.go", "a/a_test.go", "a/a.lua", "a/below/b.go", "a/below/rules/c.go", "a/below/latetest/d.go", "ab/e.go",
	} {
		tree[name] = &fstest.MapFile{Data: []byte("// Package a\n\npackage a\n")}
	}
	for _, c := range []struct {
		folders string
		files   int
	}{
		{"a", 2},
		{"a/...", 4},
		{"a/... !a/below", 2},
		{"a a/below/... !a/below/rules", 3},
		{"a/below/rules/... ab", 2},
	} {
		files, lines, err := size(tree, ".go", strings.Fields(c.folders))
		require.NoError(t, err)
		require.Equal(t, []int{c.files, 3 * c.files}, []int{files, lines}, c.folders)
	}
	files, lines, err := size(tree, ".lua", []string{"a/..."})
	require.NoError(t, err)
	require.Equal(t, []int{1, 3}, []int{files, lines})
	_, _, err = size(tree, ".go", []string{"gone/..."})
	require.Error(t, err)
}

func TestNamesAreThoseInScopeAndTheirMethods(t *testing.T) {
	const source = `package p

import "other"

type (
	T[V any]  struct{ Field int }
	U         = T[int]
	Alias     = other.Type
	Interface interface{ Called() }
	hidden    struct{}
)

func (*T[V]) M() {}

func (T[V]) m() {}

func (hidden) N() {}

const C, c = 1, 2

var V T[int]

func F() {}
`
	other := checked(t, "other", "package other\n\ntype Type struct{}\n\nfunc (Type) M() {}\n", nil)
	require.Equal(t, 2, names(other))
	p := checked(t, "p", source, other)
	require.Equal(t, len([]string{"T", "T.M", "U", "Alias", "Interface", "C", "V", "F"}), names(p))
}

// checked is a package that may import another.
func checked(t *testing.T, name, source string, other *types.Package) *types.Package {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name+".go", source, 0)
	require.NoError(t, err)
	config := types.Config{Importer: importerOf{other}}
	p, err := config.Check(name, set, []*ast.File{file}, nil)
	require.NoError(t, err)
	return p
}

type importerOf struct{ *types.Package }

func (i importerOf) Import(string) (*types.Package, error) { return i.Package, nil }

func TestOnlyFunctionsThatRanAreReadFromTheTrace(t *testing.T) {
	ran, err := parse(module + "wheel/timer.go:42:\t\tTouch\t\t83.3%\n" +
		module + "wheel/timer.go:60:\t\tRemove\t\t0.0%\n" +
		"command-line-arguments/trip.go:40:\tmain\t100.0%\n" +
		"total\t\t\t(statements)\t\t12.0%\n")
	require.NoError(t, err)
	require.Equal(t, []function{{"wheel/timer.go", 42, "Touch"}}, ran)
	_, err = parse(module + "wheel/timer.go:here:\tTouch\t83.3%\n")
	require.Error(t, err)
}

func TestTheTableMarksExceededBudgets(t *testing.T) {
	var b strings.Builder
	figures := []figure{{name: "lines of a", most: 3}, {name: "lines of b", most: 3}, {name: "functions"}}
	counts := []counted{{n: 3}, {n: 5, of: "in 2 files"}, {n: 7, long: "  list\n"}}
	require.Equal(t, 1, report(&b, figures, counts, true))
	require.Contains(t, b.String(), "lines of a  3    3                \n"+
		"lines of b  5    3        2 over  in 2 files\n"+
		"functions   7                     \n")
	require.Contains(t, b.String(), "functions:\n  list\n")
}

func TestAHeartbeatIsTraced(t *testing.T) {
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := t.TempDir()
	h := house{root: root, dir: dir, trip: filepath.Join(dir, "trip")}
	require.NoError(t, h.build())
	for engine, first := range map[string]string{"net": "*conn.Read", "gnet": "*handler.OnTraffic"} {
		t.Run(engine, func(t *testing.T) {
			t.Parallel()
			ran, err := h.travel(engine, "heartbeat", 1)
			require.NoError(t, err)
			var names []string
			for _, f := range ran {
				require.FileExists(t, filepath.Join(root, f.file))
				names = append(names, f.name)
			}
			require.Contains(t, names, first)
			require.NotContains(t, names, "*Keeper.Close")
		})
	}
}
