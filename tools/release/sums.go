package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/heartwheel-go/heartwheel/tools/internal/command"
)

// checkSums fails if go list changes the go.work.sum of the tree, as it would in each fresh clone.
func checkSums(tree string) error {
	name := filepath.Join(tree, "go.work.sum")
	before, err := readSum(name)
	if err != nil {
		return err
	}
	if _, err := command.Output(tree, nil, "go", "list", "-m", "all"); err != nil {
		return err
	}
	after, err := readSum(name)
	if err == nil && !bytes.Equal(before, after) {
		err = fmt.Errorf("%s has %d bytes, and %d after go list -m all: make tidy writes it", name, len(before), len(after))
	}
	return err
}

// readSum returns the sums of a workspace, or nothing if it has none.
func readSum(name string) ([]byte, error) {
	sum, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return sum, err
}
