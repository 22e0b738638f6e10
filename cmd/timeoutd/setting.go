package main

import (
	"fmt"
	"net/netip"
	"strings"
)

// urls is a setting of URLs with spaces between them, since a URL may have commas. None are nil.
type urls struct{ p *[]string }

func (v urls) String() string     { return strings.Join(*v.p, " ") }
func (v urls) Set(s string) error { *v.p = append([]string(nil), strings.Fields(s)...); return nil }

// list is a setting of words, with spaces or commas between them.
type list struct{ p *[]string }

func (v list) String() string     { return urls(v).String() }
func (v list) Set(s string) error { return urls(v).Set(strings.ReplaceAll(s, ",", " ")) }

// prefixes is a setting of networks.
type prefixes struct{ p *[]netip.Prefix }

func (v prefixes) String() string { return strings.Trim(fmt.Sprint(*v.p), "[]") }
func (v prefixes) Set(s string) error {
	var words []string
	_ = list{&words}.Set(s)
	*v.p = nil
	for _, word := range words {
		prefix, err := netip.ParsePrefix(word)
		if err != nil {
			return fmt.Errorf("must be networks such as 127.0.0.0/8: %w", err)
		}
		*v.p = append(*v.p, prefix)
	}
	return nil
}
