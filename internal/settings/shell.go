package settings

import (
	"fmt"
	"io"
	"strings"
)

// Shell prints what a shell needs to know of a program, if the arguments ask for it: "completion bash", "completion zsh" or
// "completion fish" for the completions of that shell, and "man" for a page of the manual in roff. It reports whether they
// did. about is the program in a few words, and commands are the words that can be its first argument.
func (s *Set) Shell(w io.Writer, args []string, about string, commands ...string) (asked bool) {
	commands = append(commands, "completion", "man")
	switch strings.Join(args, " ") {
	case "completion bash":
		s.bash(w, commands)
	case "completion zsh":
		s.zsh(w, commands)
	case "completion fish":
		s.fish(w, commands)
	case "man":
		s.man(w, about)
	default:
		return false
	}
	return true
}

// flags goes through the settings that have a flag. values is what a value can be: words with spaces between them.
func (s *Set) flags(yield func(setting Setting, toggles bool, values string)) {
	for setting := range s.All {
		values := strings.ReplaceAll(setting.Arg, "|", " ")
		if values == setting.Arg {
			values = ""
		}
		if _, toggles := setting.Value.(toggle); !setting.Secret {
			yield(setting, toggles, values)
		}
	}
}

func (s *Set) bash(w io.Writer, commands []string) {
	var names, valued []string
	var chosen strings.Builder
	s.flags(func(setting Setting, toggles bool, values string) {
		names = append(names, "-"+setting.Name)
		if values != "" {
			fmt.Fprintf(&chosen, "\t-%s) words='%s' ;;\n", setting.Name, values)
		} else if !toggles {
			valued = append(valued, "-"+setting.Name)
		}
	})
	function := "_" + strings.ReplaceAll(s.Program, "-", "_")
	fmt.Fprintf(w, `%s() {
	local words='%s'
	[ "$COMP_CWORD" != 1 ] || words+=' %s'
	case ${COMP_WORDS[1]} in
	completion) words='bash zsh fish' ;;
	-* | '') ;;
	*) [ "$COMP_CWORD" = 1 ] || return ;; # a command
	esac
	case $3 in
%s	%s) return ;;
	esac
	COMPREPLY=($(compgen -W "$words" -- "$2"))
}
complete -o default -F %s %s
`, function, strings.Join(names, " "), strings.Join(commands, " "), &chosen, strings.Join(valued, " | "), function, s.Program)
}

func (s *Set) zsh(w io.Writer, commands []string) {
	escape := strings.NewReplacer(`\`, `\\`, `'`, `'\''`, `[`, `\[`, `]`, `\]`, `:`, `\:`).Replace
	fmt.Fprintf(w, "#compdef %s\n_arguments", s.Program)
	s.flags(func(setting Setting, toggles bool, values string) {
		fmt.Fprintf(w, " \\\n\t'-%s[%s]", setting.Name, escape(setting.Help))
		switch {
		case values != "":
			fmt.Fprintf(w, ":%s:(%s)", escape(setting.Arg), values)
		case setting.Arg == "file":
			fmt.Fprint(w, ":file:_files")
		case !toggles:
			fmt.Fprintf(w, ":%s:", escape(setting.Arg))
		}
		fmt.Fprint(w, "'")
	})
	fmt.Fprintf(w, " \\\n\t'1::command:(%s)' '2::word:(bash zsh fish)'\n", strings.Join(commands, " "))
}

func (s *Set) fish(w io.Writer, commands []string) {
	escape := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace
	s.flags(func(setting Setting, toggles bool, values string) {
		fmt.Fprintf(w, "complete -c %s -o %s", s.Program, setting.Name)
		switch {
		case values != "":
			fmt.Fprintf(w, " -x -a '%s'", values)
		case setting.Arg == "file":
			fmt.Fprint(w, " -r -F")
		case !toggles:
			fmt.Fprint(w, " -x")
		}
		fmt.Fprintf(w, " -d '%s'\n", escape(setting.Help))
	})
	fmt.Fprintf(w, "complete -c %s -n __fish_use_subcommand -f -a '%s'\n", s.Program, strings.Join(commands, " "))
	fmt.Fprintf(w, "complete -c %s -n '__fish_seen_subcommand_from completion' -f -a 'bash zsh fish'\n", s.Program)
}

func (s *Set) man(w io.Writer, about string) {
	escape := strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace
	fmt.Fprintf(w, ".TH %s 1\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n.B %[2]s\n[flags]\n.SH OPTIONS\n", strings.ToUpper(s.Program), escape(s.Program), escape(about))
	var usage strings.Builder
	s.Usage(&usage)
	for line := range strings.Lines(usage.String()) {
		text := strings.TrimSpace(line)
		switch {
		case text == "":
		case !strings.HasPrefix(line, " "): // the title of a group
			fmt.Fprintf(w, ".SS %s\n", escape(strings.TrimSuffix(text, ":")))
		case !strings.HasPrefix(line, "   "): // a setting
			fmt.Fprintf(w, ".TP\n.B %s\n", escape(text))
		default:
			fmt.Fprintf(w, "\\&%s\n", escape(text))
		}
	}
}
