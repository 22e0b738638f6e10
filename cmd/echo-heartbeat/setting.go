package main

import (
	"errors"
	"strings"

	"github.com/heartwheel-go/heartwheel/debughttp"
)

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
