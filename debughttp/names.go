package debughttp

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"net"
	"strings"
	"unicode"
)

// maxName is the longest name, in runes. No address of IP or of a Unix socket is so long.
const maxName = 128

// hiddenPrefix begins the names of hidden addresses.
const hiddenPrefix = "peer-"

// hiddenUser begins the names of hidden keys.
const hiddenUser = "user-"

// names says how addresses are shown.
type names struct {
	key []byte // nil if addresses are not hidden
}

func newNames(hide bool) names {
	if !hide {
		return names{}
	}
	key := make([]byte, sha256.Size)
	rand.Read(key) // never fails
	return names{key}
}

// of returns the name for an address: "" for an unknown address, or if the address panics.
func (n names) of(addr net.Addr) string {
	if addr == nil {
		return ""
	}
	text := textOfAddr(addr)
	if n.key == nil || text == "" {
		return printable(text)
	}
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	return hiddenPrefix + n.hidden(text)
}

// user returns the name for a key of Guard.SetKey: "" for none.
func (n names) user(key string) string {
	if n.key == nil || key == "" {
		return printable(key)
	}
	return hiddenUser + n.hidden(key)
}

// hidden returns the same digits for the same text, and only for this Handler.
func (n names) hidden(text string) string {
	mac := hmac.New(sha256.New, n.key)
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil)[:5])
}

// textOfAddr returns an address as text, or "" if it panics.
func textOfAddr(addr net.Addr) (text string) {
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()
	return addr.String()
}

// printable returns a text by a peer, perhaps, without characters that change the look of the
// text around it.
func printable(text string) string {
	runes := 0
	text = strings.Map(func(r rune) rune {
		runes++
		switch {
		case runes > maxName:
			return -1
		case !unicode.IsGraphic(r):
			return unicode.ReplacementChar
		}
		return r
	}, text[:min(len(text), 4*maxName)])
	if runes > maxName {
		text += "…"
	}
	return text
}
