package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/heartwheel-go/heartwheel/internal/settings"
)

// read returns the options. The environment wins over the config file, and flags win over both.
// The error is one line and names the source of the value.
func read(args []string, env func(string) (string, bool)) (o *options, err error) {
	path, err := settings.Read(func() *settings.Set { o = newOptions(); return o.Set }, args, env)
	if err != nil {
		return nil, err
	}
	o.config = path
	return o, nil
}

// explain adds to an error the sources of the fields in it, unless they are flags.
func (o *options) explain(err error) error {
	if err == nil {
		return nil
	}
	var at []string
	for s := range o.All {
		from, ok := o.From[s.Name]
		if ok && names(err, s.FieldName()) {
			at = append(at, s.Name+" is from "+from)
		}
	}
	if at == nil {
		return err
	}
	return fmt.Errorf("%w (%s)", err, strings.Join(at, ", "))
}

// names reports whether an error names a field. Probe.Timeout is not Timeout.
func names(err error, field string) bool {
	return regexp.MustCompile(`(^|[^.\w])` + regexp.QuoteMeta(field) + `\b`).MatchString(err.Error())
}
