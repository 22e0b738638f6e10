package readme

import (
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

const root = "../.."

// pages returns all pages of the repository, with their text.
func pages(t *testing.T) map[string]string {
	found := map[string]string{}
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == ".git" || entry.Name() == "node_modules"):
			return filepath.SkipDir
		case filepath.Ext(path) == ".md":
			b, err := os.ReadFile(path)
			found[path] = string(b)
			return err
		}
		return nil
	}))
	require.Greater(t, len(found), 20)
	return found
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	block   = regexp.MustCompile("(?s)```.*?```")
)

// anchors returns the names by which the headings of a page can be linked to, as GitHub
// makes them.
func anchors(text string) map[string]bool {
	found := map[string]bool{}
	for _, h := range heading.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
		found[strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case unicode.IsLetter(r), unicode.IsDigit(r), r == '-', r == '_':
				return unicode.ToLower(r)
			}
			return -1
		}, h[1])] = true
	}
	return found
}

func TestLinksLeadSomewhere(t *testing.T) {
	all := pages(t)
	links := 0
	for page, text := range all {
		for _, l := range link.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
			links++
			target, err := url.Parse(l[1])
			require.NoError(t, err, "%s: %s", page, l[1])
			if target.Scheme != "" {
				require.Equal(t, "https", target.Scheme, "%s: %s", page, l[1])
				require.NotEmpty(t, target.Host, "%s: %s", page, l[1])
				continue
			}
			file := page
			if target.Path != "" {
				file = filepath.Join(filepath.Dir(page), target.Path)
			}
			_, err = os.Stat(file)
			require.NoError(t, err, "%s links to %s", page, l[1])
			if target.Fragment != "" {
				require.True(t, anchors(all[file])[target.Fragment], "%s links to %s: no such heading", page, l[1])
			}
		}
	}
	require.Greater(t, links, 50)
}

// What nobody links to, nobody finds.
func TestEachPageOfDocsIsLinkedToFromItsIndex(t *testing.T) {
	all := pages(t)
	index := all[filepath.Join(root, "docs/README.md")]
	for page := range all {
		if filepath.Dir(page) == filepath.Join(root, "docs") && filepath.Base(page) != "README.md" {
			require.Contains(t, index, "("+filepath.Base(page)+")")
		}
	}
}
