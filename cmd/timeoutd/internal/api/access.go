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

// Scope is the set of rights of a token. Each scope allows all that the one before it allows.
type Scope int

// The scopes.
const (
	Open  Scope = iota // needs no token
	Read               // looks at things
	Write              // sets, moves, removes and replays tasks, and tells outcomes
	Admin              // changes and drops topics, and drops dead tasks
)

// String returns the scope's name.
func (s Scope) String() string { return [...]string{"open", "read", "write", "admin"}[s] }

// MinToken is the least length of a token in bytes. A shorter one could be guessed.
const MinToken = 16

// Token gives its holder the rights of its scope.
type Token struct {
	Secret string
	Scope  Scope
}

// access decides about requests, by their tokens, hosts and origins.
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

// check returns an error if a request may not use a route of scope needs.
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

// scope returns the scope of a token. It takes equally long for every token.
func (a access) scope(secret string) Scope {
	sum := sha256.Sum256([]byte(secret))
	scope := Open
	for _, token := range a.tokens {
		same := subtle.ConstantTimeCompare(sum[:], token.sum[:])
		scope = Scope(subtle.ConstantTimeSelect(same, max(int(token.scope), int(scope)), int(scope)))
	}
	return scope
}

// forwarding lists the headers added by proxies to forwarded requests.
var forwarding = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"}

// checkHost refuses forwarded requests, and requests to a name that is not of loopback, unless
// all names are allowed. Without tokens nothing else keeps others out, such as a page with a
// name resolving to loopback (DNS rebinding).
func (a access) checkHost(r *http.Request) error {
	if a.anyHost {
		return nil
	}
	for _, name := range forwarding {
		if _, ok := r.Header[name]; ok { // whatever its value
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
