package readme

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	named  = regexp.MustCompile("`(Test[A-Za-z0-9_]+)`")
	suite  = regexp.MustCompile("enginetest:\\s+((?:`[A-Za-z]+`(?:,\\s+)?)+)")
	quoted = regexp.MustCompile("`([A-Za-z]+)`")
	tested = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
	row    = regexp.MustCompile(`(?m)^ +- (.*?): `)
	listed = regexp.MustCompile(`\{"([A-Za-z]+)", test[A-Za-z]+\}`)
)

// lists returns the timeout center's lists of tests: of promises, faults and outages.
func lists(t *testing.T) []string {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "timeout/internal/together/doc.go"), nil, parser.ParseComments)
	require.NoError(t, err)
	parts := strings.Split(file.Doc.Text(), "\n# The test of each ")
	require.Len(t, parts, 4)
	return parts[1:]
}

// The lists of the timeout center and of fleets name the test of each promise.
func TestTheTestsThatAListNamesAreThere(t *testing.T) {
	there := map[string]bool{}
	require.NoError(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".go") {
			return err
		}
		b, err := os.ReadFile(path)
		for _, m := range tested.FindAllStringSubmatch(string(b), -1) {
			there[m[1]] = true
		}
		if filepath.Base(filepath.Dir(path)) == "enginetest" {
			for _, m := range listed.FindAllStringSubmatch(string(b), -1) {
				there["enginetest: "+m[1]] = true
			}
		}
		return err
	}))
	list := lists(t)
	for page, least := range map[string]int{list[0]: 60, list[1]: 30, list[2]: 30, pages(t)[filepath.Join(root, "fleet/docs/tests.md")]: 20} {
		name, names := page[:min(8, len(page))], 0
		for _, m := range named.FindAllStringSubmatch(page, -1) {
			names++
			require.True(t, there[m[1]], "%s: %s is no test", name, m[1])
		}
		for _, group := range suite.FindAllStringSubmatch(page, -1) {
			for _, m := range quoted.FindAllStringSubmatch(group[1], -1) {
				names++
				require.True(t, there["enginetest: "+m[1]], "%s: %s is not in the suite", name, m[1])
			}
		}
		require.Greater(t, names, least, name)
	}
}

// The timeout center's lists have a row for every promise, and for every flaw of the designs before it.
func TestEveryPromiseAndEveryFlawHasARow(t *testing.T) {
	var first strings.Builder // of each row, what stands before its tests
	list := lists(t)
	for _, m := range row.FindAllStringSubmatch(list[0]+list[1], -1) {
		first.WriteString(m[1] + "\n")
	}
	rows := first.String()
	for _, of := range []struct {
		prefix string
		last   int
	}{{"A", 9}, {"B", 10}, {"C", 15}, {"D", 18}, {"E", 6}, {"F-", 11}, {"F", 43}} {
		for i := range of.last {
			id := fmt.Sprint(of.prefix, i+1)
			require.Regexp(t, `(?m)(^|[ ,])`+id+`([ ,:]|$)`, rows, "there is no row for %s", id)
		}
	}
	for _, id := range []string{"F10b", "F10c", "F19b", "F19c", "F19d", "F19e"} {
		require.Contains(t, rows, id)
	}
}
