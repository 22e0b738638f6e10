package main

import (
	"errors"
	"net/netip"
	"strings"

	"github.com/heartwheel-go/heartwheel/debughttp"
	"github.com/heartwheel-go/heartwheel/keepalive/proxyprotocol"
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

// networks is the value of a setting: networks, or single addresses, with commas between them, or nothing.
type networks struct{ p *[]netip.Prefix }

func (v networks) String() string {
	var names []string
	if v.p != nil { // the zero value is asked, too
		for _, network := range *v.p {
			names = append(names, network.String())
		}
	}
	return strings.Join(names, ",")
}

func (v networks) Set(s string) error {
	var all []netip.Prefix
	for text := range strings.SplitSeq(strings.ReplaceAll(s, " ", ""), ",") {
		network, err := netip.ParsePrefix(text)
		if addr, notOne := netip.ParseAddr(text); err != nil && notOne == nil {
			network, err = addr.Prefix(addr.BitLen())
		}
		switch {
		case s == "":
		case err != nil || (proxyprotocol.Config{Trusted: []netip.Prefix{network}}).Validate() != nil:
			return errors.New("must be networks such as 10.0.0.0/8, or addresses, with commas between them")
		default:
			all = append(all, network)
		}
	}
	*v.p = all
	return nil
}
