package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/heartwheel-go/heartwheel/internal/settings"
)

// field is how errors of server and keepalive call what a setting of that name sets: max-age
// is MaxAge.
func field(name string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(name, "-") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// fix marks a setting that can't be changed while the program runs.
func fix(s settings.Setting) settings.Setting {
	s.Fixed = true
	return s
}

// share is the value of a setting: a share of a whole, or something negative.
type share struct{ p *float64 }

func (v share) String() string { return strconv.FormatFloat(*v.p, 'g', -1, 64) }
func (v share) Set(s string) error {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || !(f >= -1 && f <= 1) { // nor NaN
		return errors.New("must be a share such as 0.1")
	}
	*v.p = f
	return nil
}
