package main

import (
	"cmp"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// edit replaces a text in the files of a module. With another count of it than expected, the module is not
// the one that the edit was written for.
type edit struct {
	files string // pattern of filepath.Match, in the folder of the module
	old   string // regular expression
	new   string // as in regexp.Expand
	count int
}

// added has files for the copies, by the name of the suite. Their names end in .txt, or they would be
// compiled here.
//
//go:embed added
var added embed.FS

// copied makes a copy of the module of a suite in a folder, with the edits and the added files in it. A
// workspace has the copy replace the module.
func copied(ctx context.Context, s suite, root, dir string) (folder string, err error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", s.module)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, failed := cmd.Output()
	var module struct{ Dir, Error string }
	err = json.Unmarshal(out, &module)
	if err = cmp.Or(failed, err); err != nil {
		return "", fmt.Errorf("go mod download %s: %w: %s", s.module, err, module.Error)
	}
	copyOf := filepath.Join(dir, "copy")
	if err := os.CopyFS(copyOf, os.DirFS(module.Dir)); err != nil {
		return "", err
	}
	folder = filepath.Join(copyOf, s.folder)
	for _, e := range s.edits {
		if err := e.apply(copyOf); err != nil {
			return "", err
		}
	}
	files, err := fs.Glob(added, "added/"+s.name+"/*.txt")
	if err != nil {
		return "", err
	}
	for _, name := range files {
		text, err := added.ReadFile(name)
		if err != nil {
			return "", err
		}
		to := filepath.Join(folder, strings.TrimSuffix(filepath.Base(name), ".txt"))
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return "", err
		}
	}
	work := fmt.Sprintf("go 1.26.0\n\nuse (\n\t%q\n\t%q\n)\n", root, copyOf)
	return folder, os.WriteFile(filepath.Join(dir, "go.work"), []byte(work), 0o644)
}

func (e edit) apply(dir string) error {
	names, err := filepath.Glob(filepath.Join(dir, e.files))
	if err != nil {
		return err
	}
	old, found := regexp.MustCompile(e.old), 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		found += len(old.FindAll(text, -1))
		if err := os.Chmod(name, 0o644); err != nil { // a module cache is read-only
			return err
		}
		if err := os.WriteFile(name, old.ReplaceAll(text, []byte(e.new)), 0o644); err != nil {
			return err
		}
	}
	if found != e.count {
		return fmt.Errorf("%s has %q %d times, not %d: another version than the edit is for", e.files, e.old, found, e.count)
	}
	return nil
}
