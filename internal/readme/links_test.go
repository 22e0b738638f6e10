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
	code    = regexp.MustCompile("`[^`]*`")

	// [text][label] and [label][] need a [label]: target. A [label] alone is a link if there
	// is one, and text otherwise.
	definition = regexp.MustCompile(`(?m)^ {0,3}\[([^]^][^]]*)\]:[ \t]*(\S*).*$`)
	reference  = regexp.MustCompile(`\[([^][]*)\](?:\[([^]]*)\])?`)
)

// prose returns a page without its blocks of code, and without brackets in what is code
// within a line.
func prose(text string) string {
	return code.ReplaceAllStringFunc(block.ReplaceAllString(text, ""), func(span string) string {
		return strings.NewReplacer("[", "", "]", "").Replace(span)
	})
}

// references returns the targets of a page's labels, and their faults.
func references(text string) (targets, wrong []string) {
	text = prose(text)
	used := map[string]bool{} // by label; false is not yet
	for _, d := range definition.FindAllStringSubmatch(text, -1) {
		label := strings.ToLower(d[1])
		if _, twice := used[label]; twice {
			wrong = append(wrong, "defined twice: "+label)
		}
		used[label] = false
		targets = append(targets, d[2])
	}
	for _, r := range reference.FindAllStringSubmatch(definition.ReplaceAllString(text, ""), -1) {
		label := strings.ToLower(r[2])
		if label == "" {
			label = strings.ToLower(r[1])
		}
		if _, defined := used[label]; defined {
			used[label] = true
		} else if r[0] != "["+r[1]+"]" {
			wrong = append(wrong, "not defined: "+label)
		}
	}
	for label, is := range used {
		if !is {
			wrong = append(wrong, "not used: "+label)
		}
	}
	return targets, wrong
}

// anchors returns the names of a page's headings in links, as GitHub makes them.
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
		targets, wrong := references(text)
		require.Empty(t, wrong, "%s", page)
		for _, l := range link.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1) {
			targets = append(targets, l[1])
		}
		for _, l := range targets {
			links++
			target, err := url.Parse(l)
			require.NoError(t, err, "%s: %s", page, l)
			if target.Scheme != "" {
				require.Equal(t, "https", target.Scheme, "%s: %s", page, l)
				require.NotEmpty(t, target.Host, "%s: %s", page, l)
				continue
			}
			require.NotEmpty(t, l, "%s: a label without a target", page)
			file := page
			if target.Path != "" {
				file = filepath.Join(filepath.Dir(page), target.Path)
			}
			_, err = os.Stat(file)
			require.NoError(t, err, "%s links to %s", page, l)
			if target.Fragment != "" {
				require.True(t, anchors(all[file])[target.Fragment], "%s links to %s: no such heading", page, l)
			}
		}
	}
	require.Greater(t, links, 50)
}

func TestReferencesAndDefinitionsBelongTogether(t *testing.T) {
	for text, want := range map[string][]string{
		"[a][b]\n\n[b]: https://b.example":                   nil,
		"[a][B], [b][], [b]\n\n[b]: https://b.example \"b\"": nil,
		"[a][b]":                           {"not defined: b"},
		"| [a][b] | [b][] |":               {"not defined: b", "not defined: b"},
		"[b]: https://b.example":           {"not used: b"},
		"[a](b)\n\n[b]: https://b.example": {"not used: b"},
		"[b]\n\n[b]: https://b.example\n[b]: https://c.example": {"defined twice: b"},
		"`x[i][j]` and [a box]":                                 nil,
		"```\n[a][b]\n[c]: d\n```":                              nil,
		"[`x`][b]\n\n[b]: other.md#b":                           nil,
		"a note[^1]\n\n[^1]: of the foot":                       nil,
	} {
		_, wrong := references(text)
		require.Equal(t, want, wrong, "%s", text)
	}
	targets, _ := references("[a][b]\n\n  [b]: other.md#b\n[c]:")
	require.Equal(t, []string{"other.md#b", ""}, targets)
}

// What nobody links to, nobody finds.
func TestEachPageOfDocsIsLinkedToFromItsIndex(t *testing.T) {
	all := pages(t)
	index := all[filepath.Join(root, "docs/README.md")]
	for page := range all {
		folder := filepath.Dir(page)
		switch {
		case filepath.Base(folder) != "docs" || filepath.Base(page) == "README.md":
		case folder == filepath.Join(root, "docs"):
			require.Contains(t, index, "("+filepath.Base(page)+")")
		default: // of a module, whose README is the index
			require.Contains(t, all[filepath.Join(folder, "../README.md")], "(docs/"+filepath.Base(page)+")")
		}
	}
}
