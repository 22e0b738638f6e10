package engine

import (
	"regexp"
	"strconv"
	"time"
)

// days finds the days at the beginning of a duration.
var days = regexp.MustCompile(`^([+-]?)(\d{1,9})d`)

// ParseDuration is time.ParseDuration with a whole number of days before the hours, such as 1d or 2d12h30m. A day is 24
// hours, whatever the clocks of a zone do.
func ParseDuration(text string) (time.Duration, error) {
	if found := days.FindStringSubmatch(text); found != nil {
		n, _ := strconv.ParseInt(found[2], 10, 64) // no error: it has few digits
		text = found[1] + strconv.FormatInt(24*n, 10) + "h" + text[len(found[0]):]
	}
	return time.ParseDuration(text)
}
