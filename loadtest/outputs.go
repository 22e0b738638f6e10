package main

import (
	"errors"
	"fmt"
	"os"
)

// output is a file to be written by a run.
type output struct{ flag, file string }

func (cfg config) outputs() (outputs []output) {
	for _, o := range []output{{"-json", cfg.json}, {"-html", cfg.html}} {
		if o.file != "" {
			outputs = append(outputs, o)
		}
	}
	return outputs
}

// createOutputs finds out now, rather than at the end, whether the files can be written. It changes no
// existing file.
func (cfg config) createOutputs() (err error) {
	var created []output
	defer func() {
		if err != nil {
			removeOutputs(created)
		}
	}()
	var infos []os.FileInfo
	for _, o := range cfg.outputs() {
		_, before := os.Lstat(o.file)
		f, err := os.OpenFile(o.file, os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			return fmt.Errorf("%s: %w", o.flag, err)
		}
		info, err := f.Stat()
		_ = f.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", o.flag, err)
		}
		if errors.Is(before, os.ErrNotExist) {
			created = append(created, o)
		}
		infos = append(infos, info)
	}
	if len(infos) == 2 && infos[0].Mode().IsRegular() && os.SameFile(infos[0], infos[1]) {
		return fmt.Errorf("-html %s: must not be the file of -json %s", cfg.html, cfg.json)
	}
	return nil
}

// removeOutputs leaves all but regular files, such as a device, in their place.
func removeOutputs(outputs []output) {
	for _, o := range outputs {
		if info, err := os.Lstat(o.file); err == nil && info.Mode().IsRegular() {
			_ = os.Remove(o.file)
		}
	}
}
