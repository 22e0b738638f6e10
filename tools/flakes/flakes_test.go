package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
	"github.com/heartwheel-go/heartwheel/tools/internal/gotest"
)

func TestADiffIsReadAsLinesOfFiles(t *testing.T) {
	changed, err := parseDiff(`diff --git a/wheel/a_test.go b/wheel/b_test.go
--- a/wheel/a_test.go
+++ b/wheel/b_test.go
@@ -3 +3 @@ func TestA(t *testing.T) {
-	old
+	new
@@ -10,0 +11,4 @@
+func TestB(t *testing.T) {
@@ -20,2 +24,0 @@ func TestC(t *testing.T) {
-	gone
`)
	require.NoError(t, err)
	require.Equal(t, map[string][]lines{"wheel/b_test.go": {{3, 3}, {11, 14}, {24, 25}}}, changed)
	_, err = parseDiff("@@ -x +y @@")
	require.Error(t, err)
}

const shaky = `package shaky

import (
	"os"
	"sync/atomic"
	"testing"
)

type helper struct{}

func (h *helper) help() { help() }

func help() {}

func TestHelped(t *testing.T) { new(helper).help() }

func TestApart(t *testing.T) {}

func TestSkipped(t *testing.T) { t.Skip("a program is missing") }

var runs atomic.Int32

func TestFailsOnceIn50(t *testing.T) {
	if runs.Add(1) == 50 {
		t.Fail()
	}
}

func TestMain(m *testing.M) { os.Exit(m.Run()) }

func FuzzSeeds(f *testing.F) { f.Fuzz(func(t *testing.T, n int) {}) }

func Example() {}

func Tested(a int) {}
`

// inModule makes a module with a package of tests.
func inModule(t *testing.T) gotest.Package {
	t.Helper()
	root := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(root, "go.mod"), []byte("module example.com/shaky\n\ngo 1.26.0\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "shaky_test.go"), []byte(shaky), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "away_windows_test.go"), []byte("package shaky\n\nfunc TestAway(*testing.T) {}\n"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(root, "interop_test.go"), []byte("//go:build interop\n\npackage shaky\n\nimport \"testing\"\n\nfunc TestOthers(*testing.T) {}\n"), 0o600))
	pkg, err := gotest.InFolder(root, ".")
	require.NoError(t, err)
	return pkg
}

func TestTestsAreFoundWithWhatTheyUse(t *testing.T) {
	pkg := inModule(t)
	all, err := declarations(pkg.Dir)
	require.NoError(t, err)
	tags := map[string]string{}
	for _, d := range all {
		if d.isTest {
			tags[d.names[0]] = d.tags
		}
	}
	require.Equal(t, map[string]string{
		"TestHelped": "", "TestApart": "", "TestSkipped": "", "TestFailsOnceIn50": "", "FuzzSeeds": "",
		"Example": "", "TestAway": elsewhere, "TestOthers": "interop",
	}, tags)
	names := func(touched string) (names []string) {
		for _, d := range concerned(all, func(d declaration) bool { return d.names != nil && d.names[0] == touched }) {
			names = append(names, d.names[0])
		}
		return names
	}
	require.Equal(t, []string{"TestHelped"}, names("help"), "by a method of a type")
	require.Equal(t, []string{"TestFailsOnceIn50"}, names("runs"))
	require.Equal(t, []string{"TestApart"}, names("TestApart"))
	require.Empty(t, names("TestMain"))
}

// A diff of the work tree, with a file that git does not know yet.
func TestChangedTestsAreThoseOfTheWorkTree(t *testing.T) {
	pkg := inModule(t)
	git := func(args ...string) {
		_, err := command.Output(pkg.Dir, nil, "git", append([]string{"-c", "user.name=x", "-c", "user.email=x@example.com"}, args...)...)
		require.NoError(t, err)
	}
	git("init", "-q")
	git("add", "shaky_test.go")
	git("commit", "-qm", "all but two files")
	changed, err := changedLines(pkg.Dir, "HEAD")
	require.NoError(t, err)
	require.Len(t, changed, 2)
	require.NoError(t, os.WriteFile(filepath.Join(pkg.Dir, "shaky_test.go"), []byte(shaky+"\nfunc TestNew(t *testing.T) {}\n"), 0o600))
	tests, err := changedTests(pkg.Dir, "HEAD")
	require.NoError(t, err)
	var names []string
	for _, one := range tests {
		names = append(names, one.name)
	}
	require.ElementsMatch(t, []string{"TestAway", "TestOthers", "TestNew"}, names)
}

func TestAFailureIsFoundAndTheRestIsSaid(t *testing.T) {
	pkg := inModule(t)
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	t.Chdir("..") // as in make
	r, err := newRunner(root, 120)
	require.NoError(t, err)
	defer os.RemoveAll(r.dir)
	r.logs = t.TempDir()
	var tests []test
	for _, name := range []string{"TestHelped", "TestSkipped", "TestFailsOnceIn50", "TestMissing"} {
		tests = append(tests, test{pkg, name, ""})
	}
	require.NoError(t, r.build(binary{pkg, ""}).err)
	results := r.all(t.Context(), tests, time.Hour)
	require.Equal(t, 123, results[tests[0]].runs)
	require.Contains(t, results[tests[1]].skip, "a program is missing")
	require.Contains(t, results[tests[2]].failed, "failed 1 times, passed 59 times, log: ")
	require.Contains(t, results[tests[3]].skip, "does not exist")
	log, err := filepath.Glob(filepath.Join(r.logs, "*TestFailsOnceIn50.log"))
	require.NoError(t, err)
	require.Len(t, log, 1)
}

func TestLongTestsRunLessOften(t *testing.T) {
	require.Equal(t, 34, counts(100, time.Millisecond, time.Minute))
	require.Equal(t, 20, counts(100, time.Second, time.Minute))
	require.Zero(t, counts(100, time.Minute, time.Minute))
	require.Zero(t, counts(100, time.Millisecond, -time.Second))
}

func TestTheTimeOfParallelSubtestsCounts(t *testing.T) {
	output := []byte(`=== RUN   TestBoth
--- PASS: TestBoth (0.10s)
    --- PASS: TestBoth/one (4.00s)
        --- PASS: TestBoth/one/deeper (14.00s)
    --- PASS: TestBoth/two (6.00s)
--- PASS: TestBothOfThem (60.00s)
    --- PASS: TestBothOfThem/one (59.00s)
--- PASS: TestBoth (2.10s)
PASS
`)
	require.Equal(t, result{runs: 2, took: 7 * time.Second}, passes(output, "TestBoth"))
	require.Equal(t, result{runs: 1, took: time.Minute}, passes(output, "TestBothOfThem"))
	require.Zero(t, passes(output, "TestNone"))
}
