package gotest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Overlay maps files, as the go command sees them, to their replacements.
type Overlay map[string]string

// Put has the go command see text in the place of a file.
func (o Overlay) Put(dir, file, text string) error {
	name := filepath.Join(dir, fmt.Sprintf("%d-%s", len(o), filepath.Base(file)))
	o[file] = name
	return os.WriteFile(name, []byte(text), 0o600)
}

// Write makes the file for the go command.
func (o Overlay) Write(name string) error {
	text, err := json.Marshal(map[string]Overlay{"Replace": o})
	if err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o600)
}
