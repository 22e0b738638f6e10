package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/tools/go/packages"

	"github.com/heartwheel-go/heartwheel/tools/internal/gotest"
)

const product = `package product

import "errors"

var errOdd = errors.New("odd")

type count uint8

func Sum(numbers []int, limit int) (sum int, err error) {
	for _, n := range numbers {
		if n%2 == 1 && n > 0 {
			return 0, errOdd
		}
		if n == 4 {
			continue
		}
		sum += min(n, limit)
	}
	return sum, nil
}

func Half(c count) count {
	switch {
	case c < 1<<3:
		return c >> 1
	case c == 9:
		return 9
	}
	return -(-c)
}

func First(numbers chan int) int {
	for {
		n := <-numbers
		if n < 0 {
			continue
		}
		return n
	}
}

func Unused(done *bool) { *done = true }
`

const productTest = `package product

import "testing"

func TestSum(t *testing.T) {
	for _, c := range []struct {
		numbers []int
		limit   int
		sum     int
		odd     bool
	}{
		{[]int{2, 4, 8}, 6, 8, false},
		{[]int{2, 3}, 6, 0, true},
	} {
		sum, err := Sum(c.numbers, c.limit)
		if sum != c.sum || (err != nil) != c.odd {
			t.Fatal(sum, err)
		}
	}
}

func TestHalf(t *testing.T) {
	if Half(6) != 3 || Half(100) != 100 {
		t.Fatal()
	}
}

func TestFirst(t *testing.T) {
	c := make(chan int)
	go func() {
		for _, n := range []int{-1, 5, 5} {
			c <- n
		}
		panic("First takes all")
	}()
	if First(c) != 5 {
		t.Fatal()
	}
}
`

func mutateProduct(t *testing.T, product, test string) []result {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.org/product\n\ngo 1.26.0\n", "product.go": product, "product_test.go": test} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	with, err := filepath.Abs("../../scripts/with")
	require.NoError(t, err)
	b := &bench{dir: t.TempDir(), with: with, most: time.Minute, jobs: 2, run: regexp.MustCompile("")}
	p := gotest.Package{Module: dir, Dir: dir, Name: "./product"}
	results, err := b.mutate(t.Context(), p, []gotest.Package{p})
	require.NoError(t, err)
	return results
}

func fatesOf(results []result) map[string]string {
	got := map[string]string{}
	for _, r := range results {
		_, place, _ := strings.Cut(r.change(), ":")
		got[place] = fates[r.fate]
	}
	return got
}

// Each mutant compiles and has its fate.
func TestMutantsMeetTheTests(t *testing.T) {
	got := fatesOf(mutateProduct(t, product, productTest))
	require.NotContains(t, slices.Collect(maps.Values(got)), "not compiled", got)
	for change, want := range map[string]string{
		"11:6 n%2 == 1 && n > 0 -> true":     "killed",
		"11:6 n%2 == 1 && n > 0 -> false":    "killed",
		"11:6 n%2 == 1 && n > 0 -> n > 0":    "killed",
		"11:6 n%2 == 1 && n > 0 -> n%2 == 1": "lived",
		"11:20 > -> >=":                      "lived",
		"11:7 % -> *":                        "killed",
		"12:14 errOdd -> the zero value":     "killed",
		"15:4 continue -> break":             "killed",
		"17:7 += -> -=":                      "killed",
		"17:3 sum += min(n, limit) ->":       "killed",
		"17:10 min -> max":                   "killed",
		"24:9 < -> <=":                       "lived",
		"25:12 >> -> <<":                     "killed",
		"26:7 c == 9 -> true":                "killed",
		"26:7 c == 9 -> false":               "lived",
		"27:10 9 -> 9+1":                     "not reached",
		"29:9 - ->":                          "killed",
		"35:6 n < 0 -> true":                 "killed",
		"36:4 continue -> break":             "killed",
		"42:27 *done = true ->":              "not reached",
		"42:35 true -> false":                "not reached",
	} {
		require.Equal(t, want, got[change], "%s of %v", change, got)
	}
	require.Len(t, alive("killed       a.go:1:1 x -> y\nlived        a.go:1:2 x -> y  (failed once: TestX)\nnot reached  a.go:1:3  x  ->  \n"), 2)
}

// Mutants of a line are left out if they do not compile.
func TestLineThatDoesNotCompileIsLearned(t *testing.T) {
	s := &subject{failed: map[string]map[int]bool{}}
	s.loaded = &packages.Package{CompiledGoFiles: []string{"/x/a.go", "/x/b.go"}}
	require.True(t, s.learn("# x\n/tmp/m/3-b.go:7:2: missing return\n./a.go:8:1: no\n/y/c.go:1:1: no\n"))
	require.Equal(t, map[string]map[int]bool{"a.go": {8: true}, "b.go": {7: true}}, s.failed)
	require.False(t, s.learn("./a.go:8:1: no\n"))
}

// No mutant of a product of complex numbers compiles. Those of the line above do.
func TestMutantThatDoesNotCompileLeavesOutThoseOfItsLine(t *testing.T) {
	results := mutateProduct(t, `package product

func C(n int, c complex128) bool {
	if n > 0 &&
		real(c*c) > 0 {
		return true
	}
	return false
}
`, `package product

import "testing"

func TestC(t *testing.T) {
	if !C(1, 1) || C(1, 1i) || C(0, 1) {
		t.Fatal()
	}
}
`)
	got := fatesOf(results)
	require.Equal(t, "not compiled", got["5:9 * -> /"], got)
	require.Equal(t, "not compiled", got["4:5 n > 0 && real(c*c) > 0 -> n > 0"], got)
	require.Equal(t, "killed", got["4:5 n > 0 && real(c*c) > 0 -> real(c*c) > 0"], got)
	require.Equal(t, "killed", got["4:7 > -> >="], got)

	var said strings.Builder
	report(&said, results)
	require.Regexp(t, `share killed +not compiled\n\./product +5 +5 +0 +0 +0 +100.0 % +6\n$`, said.String())
}

// A run kills a mutant if it ends itself with a failure, twice. A program stands in for the tests, and its first
// run leaves a file.
func TestFateOfRuns(t *testing.T) {
	const timeOut = "echo 'panic: test timed out after 5s'; exit 2"
	for _, c := range []struct {
		first, again string
		fate         fate
		err          string
	}{
		{"exit 0", "", lived, ""},
		{timeOut, "exit 0", lived, ""},
		{timeOut, "[ $limit = -test.timeout=15s ] || exit 0; " + timeOut, timedOut, ""},
		{"echo '--- FAIL: TestA'; exit 1", "exit 0", lived, ""},
		{"echo '--- FAIL: TestA'; exit 1", "echo '--- FAIL: TestA'; exit 1", killed, ""},
		{"echo PASS; echo goleak: Errors on successful test run; exit 1", "echo PASS; exit 1", killed, ""},
		{"kill -9 $$", "exit 0", lived, "signal: killed"},
		{"echo no memory; exit 126", "exit 0", lived, "exit status 126\nno memory"},
	} {
		dir := t.TempDir()
		binary := filepath.Join(dir, "tests")
		program := "#!/bin/sh\nfor limit; do :; done\nif [ ! -e ran ]; then touch ran; " + c.first + "; fi\n" + c.again + "\n"
		require.NoError(t, os.WriteFile(binary, []byte(program), 0o700))
		r := meet(t.Context(), mutant{id: 1}, []suite{{Package: gotest.Package{Dir: dir}, binary: binary, tests: []test{{name: "TestA", reaches: []byte{0, 1}}}}})
		if c.err == "" {
			require.NoError(t, r.err, c)
		} else {
			require.ErrorContains(t, r.err, c.err, c)
		}
		require.Equal(t, fates[c.fate], fates[r.fate], c)
	}

	none := suite{Package: gotest.Package{Dir: t.TempDir()}, binary: "/none", tests: []test{{name: "TestA", reaches: []byte{0, 1}}}}
	r := meet(t.Context(), mutant{id: 1}, []suite{none})
	require.ErrorContains(t, r.err, "exit status 127")
}
