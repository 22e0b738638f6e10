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

// names says how addresses are shown.
type names struct {
	key []byte // nil where they are shown as they are
}

func newNames(hide bool) names {
	if !hide {
		return names{}
	}
	key := make([]byte, sha256.Size)
	rand.Read(key) // never fails
	return names{key}
}

// of returns what to show for an address: "" for one that is not known. Whatever type
// it has, a panic of it is no address either.
func (n names) of(addr net.Addr) (name string) {
	if addr == nil {
		return ""
	}
	defer func() {
		if recover() != nil {
			name = ""
		}
	}()
	text := addr.String()
	if n.key == nil || text == "" {
		return printable(text)
	}
	if host, _, err := net.SplitHostPort(text); err == nil {
		text = host
	}
	mac := hmac.New(sha256.New, n.key)
	mac.Write([]byte(text))
	return "peer-" + hex.EncodeToString(mac.Sum(nil)[:5])
}

// printable returns a text that a peer may have had a say in, without what would
// change how the text around it is shown.
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
