package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/heartwheel-go/heartwheel/debughttp"
	"github.com/heartwheel-go/heartwheel/internal/settings"
)

// fields are the fields of server.Config for settings of another name.
var fields = map[string]string{
	"probe-after":          "Probe.After",
	"probe-timeout":        "Probe.Timeout",
	"probe-count":          "Probe.Count",
	"dry-run":              "Closing.DryRun",
	"max-age":              "Age.Max",
	"max-age-jitter":       "Age.Jitter",
	"max-age-grace":        "Age.Grace",
	"min-beat":             "Rate.MinBeat",
	"min-rate":             "Rate.MinBytes",
	"strikes":              "Rate.Strikes",
	"max-conns":            "Room.MaxConns",
	"max-per-key":          "Room.MaxPerKey",
	"full":                 "Room.Full",
	"evict-min-idle":       "Room.MinIdle",
	"pressure-timeout":     "Room.Pressure.Timeout",
	"pressure-low":         "Room.Pressure.Low",
	"pressure-high":        "Room.Pressure.High",
	"close-mode":           "Closing.Mode",
	"farewell-timeout":     "Closing.Timeout",
	"max-close-per-second": "Closing.MaxPerSecond",
}

// field is the name of a setting in errors of server and keepalive: first-message is FirstMessage.
func field(name string) string {
	if field, ok := fields[name]; ok {
		return field
	}
	var b strings.Builder
	for word := range strings.SplitSeq(name, "-") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// fix marks a setting as fixed while the program runs.
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

// hosts is the value of a setting: host names with commas between them, or nothing.
type hosts struct{ p *debughttp.Hosts }

func (v hosts) String() string { return strings.Join(v.p.Names, ",") }
func (v hosts) Set(s string) error {
	var names []string
	if s != "" {
		names = strings.Split(strings.ReplaceAll(s, " ", ""), ",")
	}
	if err := (debughttp.Hosts{Names: names}).Validate(); err != nil {
		return errors.New("must be names such as gateway.example, without ports, with commas between them")
	}
	v.p.Names = names
	return nil
}
