package settings

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testmain"
)

func shell(t *testing.T, args ...string) string {
	var text, secret string
	var is bool
	s := New("my-program", "", []Group{{Title: "All", Settings: []Setting{
		{Name: "addr", Value: Text(&text), Arg: "host:port", Help: `it's [an address]\`},
		{Name: "config", Value: Text(&text), Arg: "file", Help: "more settings"},
		{Name: "check", Value: Toggle(&is), Help: "only check"},
		{Name: "log-format", Value: Text(&text), Arg: "text|json", Help: ".log"},
		{Name: "token", Value: Text(&secret), Help: "hidden", Secret: true},
	}}})
	var out strings.Builder
	require.True(t, s.Shell(&out, args, "does things", "set", "get"))
	require.False(t, s.Shell(&out, []string{"completion"}, ""))
	require.False(t, s.Shell(&out, []string{"completion", "sh"}, ""))
	require.False(t, s.Shell(&out, nil, ""))
	return out.String()
}

func TestBashCompletes(t *testing.T) {
	testmain.NeedProgram(t, "bash", "scripts/install-packages bash")
	script := shell(t, "completion", "bash")
	for line, want := range map[string]string{
		"my-program -":                        "-addr -config -check -log-format",
		"my-program -check -l":                "-log-format",
		"my-program -log-format ":             "text json",
		"my-program -log-format j":            "json",
		"my-program -config ":                 "",
		"my-program -addr -":                  "",
		"my-program g":                        "get",
		"my-program set ":                     "",
		"my-program completion ":              "bash zsh fish",
		"my-program -check -log-format text ": "-addr -config -check -log-format",
	} {
		complete := script + `
			COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
			_my_program "$1" "${@: -1}" "${@: -2:1}"
			echo "${COMPREPLY[*]}"`
		out, err := exec.Command("bash", append([]string{"-uc", complete, "bash"}, strings.Split(line, " ")...)...).CombinedOutput()
		require.NoError(t, err, "%s", out)
		require.Equal(t, want+"\n", string(out), line)
	}
}

func TestEachShellAndTheManualKnowEachFlag(t *testing.T) {
	require.Contains(t, shell(t, "completion", "zsh"), `'-addr[it'\''s \[an address\]\\]:host\:port:'`)
	require.Contains(t, shell(t, "completion", "zsh"), `'-log-format[.log]:text|json:(text json)'`)
	require.Contains(t, shell(t, "completion", "fish"), `-o addr -x -d 'it\'s [an address]\\'`)
	require.Contains(t, shell(t, "completion", "fish"), "-o check -d 'only check'\n")
	man := shell(t, "man")
	require.Contains(t, man, ".TH MY-PROGRAM 1\n.SH NAME\nmy\\-program \\- does things\n")
	require.Contains(t, man, ".SS All\n.TP\n.B \\-addr host:port\n\\&it's [an address]\\e\n")
	require.Contains(t, man, ".B $MY_PROGRAM_TOKEN, or in the config file token\n\\&hidden\n")
	for _, of := range []string{"bash", "zsh", "fish"} {
		require.NotContains(t, shell(t, "completion", of), "token")
	}
}
