package readme

import (
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
	suite  = regexp.MustCompile("enginetest: ((?:`[A-Za-z]+`(?:, )?)+)")
	quoted = regexp.MustCompile("`([A-Za-z]+)`")
	tested = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9_]+)\(`)
	listed = regexp.MustCompile(`\{"([A-Za-z]+)", test[A-Za-z]+\}`)
)

// The page of the timeout centre says which test shows what.
func TestTheTestsThatAPageNamesAreThere(t *testing.T) {
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
	page := pages(t)[filepath.Join(root, "docs", "timeout.md")]
	names := 0
	for _, m := range named.FindAllStringSubmatch(page, -1) {
		names++
		require.True(t, there[m[1]], "%s is no test", m[1])
	}
	for _, group := range suite.FindAllStringSubmatch(page, -1) {
		for _, m := range quoted.FindAllStringSubmatch(group[1], -1) {
			names++
			require.True(t, there["enginetest: "+m[1]], "%s is not in the suite", m[1])
		}
	}
	require.Greater(t, names, 60)
}
