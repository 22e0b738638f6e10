// Package command runs programs for the tools, and the tools themselves.
package command

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

// Output runs a program in a folder, with more variables in its environment, and returns its output
// without the last newline. An error has all that the program said.
func Output(dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s%s", name, strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}
