package sqlkit

import (
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Migrations reads the steps that make a schema, in order, from files named 0001_what.sql
// and so on, without a gap.
func Migrations(files fs.FS) ([]string, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	var steps []string
	for i, name := range names { // in order of names
		number, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
		if n, err := strconv.Atoi(number); err != nil || n != i+1 {
			return nil, fmt.Errorf("migration %s, must be number %d", name, i+1)
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		steps = append(steps, string(text))
	}
	return steps, nil
}

// CheckVersion returns an error where a schema was made by a newer release.
func CheckVersion(version, known int) error {
	if version > known {
		return fmt.Errorf("%w: schema of version %d, must be at most %d: a newer release has made it", timeout.ErrUnsupported, version, known)
	}
	return nil
}
