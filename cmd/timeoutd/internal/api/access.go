package api

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Scope is the set of rights of a token. Each scope allows all that the one before it allows, but
// Work is for its topics alone. Secrets of callbacks are for those who can set them: Write for a task, Admin for a topic.
type Scope int

// The scopes.
const (
	Open  Scope = iota // needs no token
	Peer               // asks for the figures of a node: see PeerToken
	Read               // looks at things
	Work               // pulls the tasks of a topic, extends their leases and tells their outcomes
	Write              // sets, moves, removes and replays tasks, and tells outcomes
	Admin              // changes and drops topics, and drops dead tasks
)

// String returns the scope's name.
func (s Scope) String() string {
	return [...]string{"open", "peer", "read", "work", "write", "admin"}[s]
}

// minToken is the least length of a token in bytes. A shorter one could be guessed.
const minToken = 16

// Token gives its holder the rights of its scope.
type Token struct {
	Secret string
	Scope  Scope
	Topic  string // with scope Work
}

// access decides about requests, by their tokens, hosts and origins.
type access struct {
	tokens  []hashed // of both kinds
	anyHost bool
	cross   *http.CrossOriginProtection
}

type hashed struct {
	sum   [sha256.Size]byte
	scope Scope
	topic string
}

func newAccess(tokens []Token, anyHost bool) access {
	a := access{anyHost: anyHost || len(tokens) > 0, cross: http.NewCrossOriginProtection()}
	for _, token := range tokens {
		a.tokens = append(a.tokens, hashed{sha256.Sum256([]byte(token.Secret)), token.Scope, token.Topic})
		if token.Scope == Read {
			a.tokens = append(a.tokens, hashed{sha256.Sum256([]byte(PeerToken(token.Secret))), Peer, ""})
		}
	}
	return a
}

// PeerToken returns the token of scope Peer that comes with a token of scope Read: nodes with the same one know it.
// Whoever gets it can ask for the figures of nodes, and can't find out the other one.
func PeerToken(read string) string {
	mac := hmac.New(sha256.New, []byte(read))
	mac.Write([]byte("heartwheel timeoutd peer"))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// check returns an error for a token that nobody could send, or everybody guess.
func (t Token) check() error {
	if len(t.Secret) < minToken || strings.ContainsFunc(t.Secret, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return fmt.Errorf("%w: a token of scope %v has %d bytes, must have at least %d, of visible ASCII", timeout.ErrArgument, t.Scope, len(t.Secret), minToken)
	}
	if t.Scope == Work {
		if err := engine.CheckTopic(t.Topic); err != nil {
			return fmt.Errorf("a token of scope work: %w", err)
		}
	}
	return nil
}

// check returns an error if a request may not use a route of scope needs.
func (a access) check(r *http.Request, needs Scope) error {
	if err := a.checkHost(r); err != nil {
		return err
	}
	if err := a.cross.Check(r); err != nil {
		return problem(http.StatusForbidden, "the request was made by a page of another site: %v", err)
	}
	has, topics, token := a.rights(r)
	switch {
	case has >= needs, needs == Work && len(topics) > 0: // work checks the topic
		return nil
	case !token:
		return problem(http.StatusUnauthorized, "there is no token, must be one of scope %v in the header Authorization: Bearer", needs)
	case has == Open && len(topics) == 0:
		return problem(http.StatusUnauthorized, "the token is not known")
	case has == Open:
		has = Work
	}
	return problem(http.StatusForbidden, "the token has scope %v, must have %v", has, needs)
}

// work returns an error if a request that passed check may not work on the tasks of a topic.
func (a access) work(r *http.Request, topic string) error {
	if has, topics, _ := a.rights(r); has < Work && !slices.Contains(topics, topic) {
		return problem(http.StatusForbidden, "the token is for work on the topics %q, must be for %.*q", topics, maxShown, topic)
	}
	return nil
}

// may reports whether a request that passed check has the rights of a scope, without those of Work.
func (a access) may(r *http.Request, scope Scope) bool {
	has, _, _ := a.rights(r)
	return has >= scope
}

// rights returns the scope of a request, the topics that it may work on, and whether it has a token. It compares with all
// tokens, so it takes equally long for every unknown one.
func (a access) rights(r *http.Request) (scope Scope, topics []string, token bool) {
	if len(a.tokens) == 0 {
		return Admin, nil, false
	}
	kind, secret, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if !strings.EqualFold(kind, "Bearer") {
		return Open, nil, false
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(secret)))
	for _, token := range a.tokens {
		switch same := subtle.ConstantTimeCompare(sum[:], token.sum[:]) == 1; {
		case same && token.scope == Work:
			topics = append(topics, token.topic)
		case same:
			scope = max(scope, token.scope)
		}
	}
	return scope, topics, true
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
