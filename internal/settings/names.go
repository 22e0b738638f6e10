package settings

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// linked is what follows the name of a service in the variables that Kubernetes and Docker set for it.
var linked = regexp.MustCompile(`^(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)$`)

// CheckNames returns an error for each variable of the environment that begins with the program's name, in capitals or not,
// and is no setting, nor one of others, which the program reads elsewhere. It names the nearest one. Variables of links to a
// service of that name pass.
func (s *Set) CheckNames(environ []string, others ...string) error {
	prefix, known := s.variable(""), slices.Clone(others)
	for setting := range s.All {
		if !setting.Local || setting.Name == "config" {
			known = append(known, s.env(setting))
		}
	}
	var errs []error
	for _, pair := range environ {
		name, value, _ := strings.Cut(pair, "=")
		upper := strings.ToUpper(name)
		rest, ours := strings.CutPrefix(upper, prefix)
		port := strings.HasSuffix(rest, "PORT") && strings.Contains(value, "://")
		if ours && !slices.Contains(known, name) && !port && !linked.MatchString(rest) {
			errs = append(errs, fmt.Errorf("%.*s is no variable of %s: %s", maxShown, name, s.Program, s.instead(upper, known)))
		}
	}
	return errors.Join(errs...)
}

// instead says which variable was meant by a name in capitals.
func (s *Set) instead(name string, known []string) string {
	for setting := range s.All {
		switch env := s.env(setting); {
		case s.variable(setting.Name) != name:
		case slices.Contains(known, env):
			return "it is " + env
		default:
			return "-" + setting.Name + " is for the command line only"
		}
	}
	return "the nearest one is " + slices.MinFunc(known, func(a, b string) int { return distance(a, name) - distance(b, name) })
}

// distance is how many characters must be put in, taken out or replaced to make a text from another one.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0] // of the row above, in the column before
		row[0]++
		for j := range len(b) {
			replaced := before
			if a[i] != b[j] {
				replaced++
			}
			before = row[j+1]
			row[j+1] = min(replaced, row[j]+1, before+1)
		}
	}
	return row[len(b)]
}
