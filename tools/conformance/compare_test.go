package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheResultsAreThoseOfTestsWithoutTestsInThem(t *testing.T) {
	results, other, err := read(strings.NewReader(`
{"Action":"start","Package":"x.y/p"}
{"Action":"run","Package":"x.y/p","Test":"TestA"}
{"Action":"run","Package":"x.y/p","Test":"TestA/a.Test/b"}
{"Action":"output","Package":"x.y/p","Test":"TestA/a.Test/b","Output":"said\n"}
{"Action":"fail","Package":"x.y/p","Test":"TestA/a.Test/b"}
{"Action":"fail","Package":"x.y/p","Test":"TestA"}
{"Action":"run","Package":"x.y/p","Test":"TestB"}
{"Action":"skip","Package":"x.y/p","Test":"TestB"}
{"Action":"run","Package":"x.y/p","Test":"TestC"}
{"Action":"run","Package":"x.y/p","Test":"TestC/d"}
{"Action":"pass","Package":"x.y/p","Test":"TestC/d"}
{"Action":"fail","Package":"x.y/p","Test":"TestC"}
{"Action":"output","Package":"x.y/p","Output":"FAIL\n"}
{"Action":"fail","Package":"x.y/p"}
{"Action":"run","Package":"x.y/q","Test":"TestE"}
{"Action":"pass","Package":"x.y/q","Test":"TestE"}
{"Action":"fail","Package":"x.y/q"}
{"Action":"run","Package":"x.y/r","Test":"TestF"}
{"Action":"fail","Package":"x.y/r"}
{"Action":"skip","Package":"x.y/s"}
`))
	require.NoError(t, err)
	require.Equal(t, "FAIL\n", other)
	require.Equal(t, map[string]result{
		"x.y/p.TestA/a.Test/b": {"fail", "said\n"},
		"x.y/p.TestB":          {"skip", ""},
		"x.y/p.TestC":          {"fail", ""}, // for itself
		"x.y/p.TestC/d":        {"pass", ""},
		"x.y/q":                {"fail", ""}, // TestMain
		"x.y/q.TestE":          {"pass", ""},
		"x.y/r.TestF":          {"fail", ""}, // never ended
	}, results)
	_, _, err = read(strings.NewReader(`{"Action":"build-fail","ImportPath":"x.y/p"}`))
	require.EqualError(t, err, "x.y/p is not built")
}

func TestASuiteHasTheResultsOfItsControlButForWhatIsMeant(t *testing.T) {
	control := map[string]result{"p.TestA": {"pass", ""}, "p.TestB": {"fail", "x"}, "p.TestC": {"pass", ""}, "p.TestD": {"skip", ""}}
	require.Equal(t, table{control: counts{2, 1, 1}, guarded: counts{2, 1, 1}}, compare(control, control, nil))

	guarded := map[string]result{"p.TestA": {"fail", "late by 1\n"}, "p.TestB": {"fail", "y"}, "p.TestD": {"skip", ""}}
	late := difference{`\.TestA$`, 1, "late by 1\n", "never early"}
	gone := difference{`\.TestC$`, 1, "", "a reason"}
	require.Equal(t, table{control: counts{2, 1, 1}, guarded: counts{0, 2, 1}, meant: 2},
		compare(control, guarded, []difference{late, gone}))

	require.Equal(t, []string{"p.TestC: not run, and in the control pass\n"}, compare(control, guarded, []difference{late}).errors)
	late.says = "late by 2\n"
	require.Equal(t, []string{
		"p.TestA: fail, and in the control pass\nlate by 1\n",
		`0 tests \.TestA$ differ, saying "late by 2\n", and 1 are meant: never early`,
	}, compare(control, guarded, []difference{late, gone}).errors)
	require.Len(t, compare(control, control, []difference{gone}).errors, 1, "a difference that is none any more")
}

func TestAnEditOfAnotherVersionIsAnError(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "a_test.go")
	require.NoError(t, os.WriteFile(name, []byte("Run(a), Run(b)"), 0o444))
	require.NoError(t, edit{"*_test.go", `Run\((\w)\)`, "run(${1}, 1)", 2}.apply(dir))
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	require.Equal(t, "run(a, 1), run(b, 1)", string(text))
	require.EqualError(t, edit{"*_test.go", `Run\(`, "", 2}.apply(dir),
		`*_test.go has "Run\\(" 0 times, not 2: another version than the edit is for`)
}

func TestAnUnknownSuiteIsAnError(t *testing.T) {
	all, err := choose(nil)
	require.NoError(t, err)
	require.Equal(t, suites, all)
	one, err := choose([]string{"grpc"})
	require.NoError(t, err)
	require.Equal(t, "grpc", one[0].name)
	_, err = choose([]string{"nettests"})
	require.EqualError(t, err, `no suite "nettests", must be one of nettest, grpc, h2spec, h2c, gorilla, coder, gnet, gozero`)
}

// A workspace has many modules, and this is one of them.
func TestTheRootIsThatOfThisModule(t *testing.T) {
	root, err := moduleRoot(t.Context())
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(root, "suites.go"))
}
