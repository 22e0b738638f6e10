package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/tools/internal/gotest"
)

// program is disturbed by each of its steps.
const program = `package main

import (
	"os"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	var mu sync.Mutex
	var n atomic.Int64
	done := make(chan time.Time)
	for range 4 {
		go func() {
			for range 1000 {
				mu.Lock()
				n.Add(1)
				mu.Unlock()
			}
			done <- time.Now()
		}()
	}
	for range 4 {
		<-done
	}
	os.Exit(0)
}
`

// A new version of Go, unknown to chaos, fails here with the file and the function.
func TestOverlayIsMadeForTheInstalledGoAndDisturbs(t *testing.T) {
	for _, name := range []string{"GOROOT", "GOTOOLCHAIN", "GO"} {
		t.Setenv(name, os.Getenv(name)) // restored at the end, see installed
	}
	dir := t.TempDir()
	g, err := installed(dir)
	require.NoError(t, err)
	o, err := g.disturbed(dir)
	require.NoError(t, err)
	replaced := filepath.Join(dir, "overlay.json")
	require.NoError(t, o.Write(replaced))
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	binary, count := filepath.Join(dir, "program"), file("count", "")
	out, err := exec.Command(gotest.GoCommand(), "build", "-overlay", replaced, "-o", binary, file("main.go", program)).CombinedOutput()
	require.NoError(t, err, "%s: %s", g.version, out)

	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), "HEARTWHEEL_CHAOS=1", "HEARTWHEEL_CHAOS_COUNT="+count)
	out, err = cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	text, err := os.ReadFile(count)
	require.NoError(t, err)
	var points, yields, stops int
	_, err = fmt.Sscan(string(text), &points, &yields, &stops)
	require.NoError(t, err, "%q", text)
	require.Greater(t, points, 4*1000*3)
	require.Positive(t, yields)

	cmd = exec.Command(binary) // without a seed it is not disturbed
	cmd.Env = append(os.Environ(), "HEARTWHEEL_CHAOS_COUNT="+file("count2", ""))
	require.NoError(t, cmd.Run())
	text, err = os.ReadFile(filepath.Join(dir, "count2"))
	require.NoError(t, err)
	require.Empty(t, text)
}

func TestUnknownGoIsAnErrorWithVersionFileAndFunction(t *testing.T) {
	src := t.TempDir()
	g := golang{"go9.99", src}
	_, err := g.edited("time/time.go", []point{{file: "time/time.go", name: "Now", call: disturb}})
	require.ErrorContains(t, err, "go9.99 is a Go that chaos does not know")

	require.NoError(t, os.Mkdir(filepath.Join(src, "time"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(src, "time/time.go"), []byte("package time\n\nfunc Later() int { return 1 }\n"), 0o600))
	_, err = g.edited("time/time.go", []point{{file: "time/time.go", name: "Now", call: disturb}})
	require.EqualError(t, err, "go9.99 is a Go that chaos does not know: "+filepath.Join(src, "time/time.go")+
		" has 0 functions Now, must be 1: see tools/chaos/points.go")
}

func TestPointsAreInserted(t *testing.T) {
	src := t.TempDir()
	text := "package p\n\nfunc (x *T[V]) F() int {\n\ta := 1\n\treturn a\n}\n\nfunc (x *T[V]) G() { x.F() }\n"
	require.NoError(t, os.WriteFile(filepath.Join(src, "p.go"), []byte(text), 0o600))
	edited, err := golang{src: src}.edited("p.go", []point{
		{file: "p.go", name: "(*T).F", call: "f()"},
		{file: "p.go", name: "(*T).F", call: "g()", at: second},
		{file: "p.go", name: "(*T).G", call: "h()", at: end},
		{file: "other.go", name: "(*T).G", call: "i()"},
	})
	require.NoError(t, err)
	require.Equal(t, "package p\n\nfunc (x *T[V]) F() int { f(); \n\ta := 1; g()\n\treturn a\n}\n\nfunc (x *T[V]) G() { x.F() ; h(); }\n", edited)
}

// A fault fails here once it no longer fits the product.
func TestFaultsFitTheProduct(t *testing.T) {
	for _, f := range faults {
		require.NoError(t, f.apply("../..", t.TempDir(), gotest.Overlay{}))
	}
}

func TestHangsAndRepetitionsAreReadFromTheOutput(t *testing.T) {
	hanging := []byte("panic: test timed out after 1m0s\n\trunning tests:\n\t\tTestA (50s)\n\t\tTestA/x (2s)\n\t\tTestB (31s)\n")
	require.True(t, hangs(hanging, 31*time.Second))
	require.False(t, hangs(hanging, 32*time.Second), "the first test is at its last subtest")
	require.Equal(t, "make chaos PKGS=./wheel SEED=7 RUN='^(TestC|TestD)$$'", (&workshop{}).again("./wheel", 7, []string{"timed out:", "TestC", "TestD/x"}))
	require.Equal(t, "make stress PKGS=./wheel TAGS=interop", (&workshop{options: options{tags: "interop"}}).again("./wheel", 0, []string{"exit status 2"}))
}

// A program stands in for scripts/with and the tests. Each run says something, and never ends.
func TestInterruptedStressKeepsTheLogOfEachRun(t *testing.T) {
	dir := t.TempDir()
	with := filepath.Join(dir, "with")
	program := "#!/bin/sh\n[ $1 = plain ] || exit 0\necho said much\ntouch " + dir + "/$$.begun\nexec sleep 600\n"
	require.NoError(t, os.WriteFile(with, []byte(program), 0o700))
	named := func(pattern string) []string {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		require.NoError(t, err)
		return found
	}
	w := &workshop{dir: dir, logs: dir, with: with, options: options{timeout: time.Minute}}
	ctx, interrupt := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.stress(ctx, []gotest.Package{{Module: dir, Dir: dir, Name: "./p"}}, 20, 4, 0) }()
	for len(named("*.begun")) < 4 && len(ended) == 0 {
		time.Sleep(time.Millisecond)
	}
	interrupt()
	require.ErrorContains(t, <-ended, "interrupted, log: "+filepath.Join(dir, "p-stress-"))
	logs := named("*-interrupted.log")
	require.Len(t, logs, 4)
	for _, log := range logs {
		text, err := os.ReadFile(log)
		require.NoError(t, err)
		require.Equal(t, "said much\n", string(text), log)
	}
}

// A program stands in for scripts/with and the tests. Each run notes its folder.
func TestStressGoesByRounds(t *testing.T) {
	dir := t.TempDir()
	with := filepath.Join(dir, "with")
	program := "#!/bin/sh\n[ $1 = plain ] || exit 0\nbasename $PWD >> " + dir + "/order\n"
	require.NoError(t, os.WriteFile(with, []byte(program), 0o700))
	var pkgs []gotest.Package
	for _, name := range []string{"a", "b"} {
		pkg := filepath.Join(dir, name)
		require.NoError(t, os.Mkdir(pkg, 0o700))
		pkgs = append(pkgs, gotest.Package{Module: dir, Dir: pkg, Name: "./" + name})
	}
	w := &workshop{dir: dir, logs: dir, with: with, options: options{timeout: time.Minute}}
	require.NoError(t, w.stress(t.Context(), pkgs, 3, 2, 0))
	order, err := os.ReadFile(filepath.Join(dir, "order"))
	require.NoError(t, err)
	require.Equal(t, "a\na\nb\nb\na\nb\n", string(order))
}
