package readme

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// A tag of an action can be moved to other code. A commit can't.
func TestActionsAreCommits(t *testing.T) {
	files, err := filepath.Glob("../../.github/workflows/*.y*ml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		uses := regexp.MustCompile(`uses: .*`).FindAllString(string(text), -1)
		require.NotEmpty(t, uses, file)
		for _, line := range uses {
			require.Regexp(t, `^uses: [\w-]+(/[\w-]+){1,2}@[0-9a-f]{40} # v\d+\.\d+\.\d+$`, line, file)
		}
	}
}

// A release is made by the goreleaser that the dry run has tried.
func TestReleasesAreMadeAsTried(t *testing.T) {
	version := func(file, before string) string {
		text, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		found := regexp.MustCompile(regexp.QuoteMeta(before) + `(v\d+\.\d+\.\d+)\b`).FindSubmatch(text)
		require.NotNil(t, found, file)
		return string(found[1])
	}
	const workflow = ".github/workflows/release.yml"
	require.Equal(t, version("scripts/release-dry-run", "goreleaser/v2@"), version(workflow, "version: "))
	require.Equal(t, version("tools/go.mod", "github.com/google/go-containerregistry "), version(workflow, "cmd/crane@"))
}

func TestDependabotKnowsAllModules(t *testing.T) {
	text, err := os.ReadFile("../../.github/dependabot.yml")
	require.NoError(t, err)
	require.NoError(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Base(path) == "go.mod" {
			dir, e := filepath.Rel(root, filepath.Dir(path))
			require.NoError(t, e)
			if dir == "." {
				dir = ""
			}
			require.Contains(t, string(text), "- /"+filepath.ToSlash(dir)+"\n")
		}
		return err
	}))
}
