package testmain

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// ErrMissing is wrapped by errors that name a missing program, and the command that brings it.
var ErrMissing = errors.New("is not on this machine")

// Need ends a test if err is not nil. A test that wants a missing program is skipped. In CI, which installs all programs,
// it fails.
func Need(t testing.TB, err error) {
	t.Helper()
	switch {
	case err == nil:
	case errors.Is(err, ErrMissing) && os.Getenv("CI") == "":
		t.Skip(err)
	default:
		t.Fatal(err)
	}
}

// NeedProgram ends a test, as Need does, if a program is not in the PATH. The command brings it.
func NeedProgram(t testing.TB, program, command string) {
	t.Helper()
	if _, err := exec.LookPath(program); err != nil {
		Need(t, fmt.Errorf("%s %w: %s installs it", program, ErrMissing, command))
	}
}

// NeedPermission ends a test if err is not nil. If the kernel has refused an ordinary user something, the test is skipped.
func NeedPermission(t testing.TB, err error) {
	t.Helper()
	if errors.Is(err, os.ErrPermission) && os.Geteuid() != 0 {
		t.Skipf("this machine lets only root do so (%v): sudo make test", err)
	}
	Need(t, err)
}
