package api

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Scope is what a token is good for. Each has what the one before it has.
type Scope int

// The scopes.
const (
	Open  Scope = iota // needs no token
	Read               // looks at things
	Write              // sets, moves, removes and replays tasks, and tells outcomes
	Admin              // changes and drops topics, and drops what is dead
)

// String returns the scope's name.
func (s Scope) String() string { return [...]string{"open", "read", "write", "admin"}[s] }

// MinToken is how many bytes a token has at least, so that nobody guesses it.
const MinToken = 16

// Token lets who has it do what its scope says.
type Token struct {
	Secret string
	Scope  Scope
}

// access decides who may do what.
type access struct {
	tokens  []hashed
	anyHost bool
	cross   *http.CrossOriginProtection
}

type hashed struct {
	sum   [sha256.Size]byte
	scope Scope
}

func newAccess(tokens []Token, anyHost bool) (access, error) {
	a := access{anyHost: anyHost || len(tokens) > 0, cross: http.NewCrossOriginProtection()}
	for _, token := range tokens {
		if len(token.Secret) < MinToken || strings.ContainsFunc(token.Secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return a, fmt.Errorf("%w: a token of scope %v has %d bytes, must have at least %d, of visible ASCII", timeout.ErrArgument, token.Scope, len(token.Secret), MinToken)
		}
		a.tokens = append(a.tokens, hashed{sha256.Sum256([]byte(token.Secret)), token.Scope})
	}
	return a, nil
}

// check returns why a request may not do what needs that scope.
func (a access) check(r *http.Request, needs Scope) error {
	if err := a.checkHost(r); err != nil {
		return err
	}
	if err := a.cross.Check(r); err != nil {
		return problem(http.StatusForbidden, "the request was made by a page of another site: %v", err)
	}
	if needs == Open || len(a.tokens) == 0 {
		return nil
	}
	kind, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") {
		return problem(http.StatusUnauthorized, "there is no token, must be one of scope %v in the header Authorization: Bearer", needs)
	}
	has := a.scope(strings.TrimSpace(secret))
	switch {
	case has == Open:
		return problem(http.StatusUnauthorized, "the token is not known")
	case has < needs:
		return problem(http.StatusForbidden, "the token has scope %v, must have %v", has, needs)
	}
	return nil
}

// scope returns what a token is good for. It takes as long for each.
func (a access) scope(secret string) Scope {
	sum := sha256.Sum256([]byte(secret))
	scope := Open
	for _, token := range a.tokens {
		same := subtle.ConstantTimeCompare(sum[:], token.sum[:])
		scope = Scope(subtle.ConstantTimeSelect(same, max(int(token.scope), int(scope)), int(scope)))
	}
	return scope
}

// forwarding are the headers by which proxies say that a request is not their own.
var forwarding = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"}

// checkHost refuses what a proxy passes on, and names that are not of loopback, where nothing
// but that keeps others out, such as a page whose name resolves to loopback (DNS rebinding).
func (a access) checkHost(r *http.Request) error {
	if a.anyHost {
		return nil
	}
	for _, name := range forwarding {
		if _, ok := r.Header[name]; ok { // whatever it says
			return problem(http.StatusForbidden, "the request was forwarded (header %s), must be from this machine where there are no tokens", name)
		}
	}
	if isLoopback(r.Host) {
		return nil
	}
	return problem(http.StatusForbidden, "the host %.*q is not a name of loopback, must be localhost or 127.0.0.1 where there are no tokens", maxShown, r.Host)
}

func isLoopback(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr.IsLoopback()
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}
