// Package settings is how this project's programs are told things: by flags, by the lines of
// a file, and by the environment, each by the same name.
package settings

import (
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Setting is one thing to tell a program.
type Setting struct {
	Name  string
	Value flag.Value
	Arg   string // what the help calls the value
	Help  string

	Variable string // its name in the environment, if others have given it one
	Field    string // of the config, as errors name it; empty is MaxLine for max-line
	Unit     string // of a number, for JSON: a duration is in seconds
	Fixed    bool   // can't be changed while the program runs
	Off      bool   // has no effect: its policy is off
	Local    bool   // is for the command line only
	Secret   bool   // is not for the command line, which everybody on the machine can see
}

// FieldName is the name of the field of the config, as errors name it.
func (s Setting) FieldName() string {
	if s.Field != "" {
		return s.Field
	}
	var b strings.Builder
	for word := range strings.SplitSeq(s.Name, "-") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// Group is a few settings with one purpose.
type Group struct {
	Title    string
	Settings []Setting
}

// Set is all settings of a program. One of them is called config, and is the file.
type Set struct {
	Program string // the flags' name, and in capitals the beginning of those in the environment
	Stray   string // what is said of an argument that is no flag
	Groups  []Group

	// From is the source of a value, by name, if it is not a flag.
	From map[string]string
}

// New returns a set without values. A [Fact] is none of its settings.
func New(program, stray string, groups []Group) *Set {
	for i := range groups {
		groups[i].Settings = slices.DeleteFunc(groups[i].Settings, func(s Setting) bool { _, ok := s.Value.(fact); return ok })
	}
	return &Set{Program: program, Stray: stray, Groups: groups, From: make(map[string]string)}
}

// All goes through the settings.
func (s *Set) All(yield func(Setting) bool) {
	for _, g := range s.Groups {
		for _, setting := range g.Settings {
			if !yield(setting) {
				return
			}
		}
	}
}

// Find returns the setting of a name.
func (s *Set) Find(name string) (Setting, bool) {
	for setting := range s.All {
		if setting.Name == name {
			return setting, true
		}
	}
	return Setting{}, false
}

// Usage prints the settings in groups.
func (s *Set) Usage(w io.Writer) {
	for _, g := range s.Groups {
		fmt.Fprintf(w, "\n%s:\n", g.Title)
		for _, setting := range g.Settings {
			name := "-" + setting.Name
			if setting.Secret {
				name = "$" + s.env(setting) + ", or in the config file " + setting.Name
			}
			fmt.Fprintf(w, "  %s\n        %s", strings.TrimSpace(name+" "+setting.Arg), setting.Help)
			if setting.Variable != "" && !setting.Secret {
				fmt.Fprintf(w, " ($%s)", setting.Variable)
			}
			switch setting.Value.String() {
			case "", "0", "0s", "false":
			default:
				fmt.Fprintf(w, " (default %s)", setting.Value)
			}
			fmt.Fprintln(w)
		}
	}
}

// env is a setting's name in the environment.
func (s *Set) env(setting Setting) string {
	if setting.Variable != "" {
		return setting.Variable
	}
	return s.variable(setting.Name)
}

// variable is the name in the environment of a setting without one by others.
func (s *Set) variable(name string) string {
	return strings.ToUpper(strings.ReplaceAll(s.Program+"_"+name, "-", "_"))
}

// shown is a value for an error.
func (s Setting) shown(value string) string {
	if s.Secret {
		return "(hidden)"
	}
	return fmt.Sprintf("%.*q", maxShown, value)
}
