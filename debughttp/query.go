package debughttp

import (
	"cmp"
	"fmt"
	"math"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/view"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

const (
	defaultLimit = 100
	maxLimit     = 1000

	// maxText is the longest text to look for, in bytes.
	maxText = 256
)

// query is what somebody wants to know of the connections.
type query struct {
	shown  string // what was asked for
	closed bool   // the ended ones
	state  string // of view, or "" for any
	sort   sorting
	order  string // asc or desc
	desc   bool
	limit  int

	// A page has the connections after a place in the order, or those before it. Neither is
	// the first page.
	after, before *place

	id      uint64
	addr    func(netip.AddrPort) bool // nil is any
	name    string                    // of a hidden address
	label   string                    // a part of it, in small letters
	key     string                    // as the page shows it
	reason  string
	minAge  time.Duration
	minIdle time.Duration
}

// sorting is an order of connections.
type sorting struct {
	name string
	desc bool // unless the query says otherwise
	key  func(e *entry) key
}

// An instant further back is a longer time: so the order stays the same while the time passes.
var (
	byID        = sorting{"id", false, func(*entry) key { return key{} }}
	byAddr      = sorting{"addr", false, addrKey}
	byAge       = sorting{"age", true, func(e *entry) key { return key{math.MaxInt64 - uint64(e.Opened)} }}
	byIdle      = sorting{"idle", true, func(e *entry) key { return key{math.MaxInt64 - uint64(e.Touched)} }}
	byLeft      = sorting{"left", false, leftKey}
	byRoundTrip = sorting{"round_trip", true, func(e *entry) key { return key{uint64(e.RoundTrip)} }}

	openSortings = []sorting{byIdle, byID, byAddr, byAge, byLeft, byRoundTrip}

	byClosed       = sorting{"closed", true, func(e *entry) key { return key{e.end.number} }}
	byAgeAtEnd     = sorting{"age", true, func(e *entry) key { return key{uint64(e.end.Age)} }}
	byIdleAtEnd    = sorting{"idle", true, func(e *entry) key { return key{uint64(e.end.Idle)} }}
	closedSortings = []sorting{byClosed, byID, byAddr, byAgeAtEnd, byIdleAtEnd}
)

// key is what connections are sorted by. Connections with the same key are sorted by their IDs.
type key [3]uint64

// place is the place of a connection in the order. The connection may be gone by now.
type place struct {
	key key
	id  uint64
}

func (p place) compare(q place) int {
	return cmp.Or(slices.Compare(p.key[:], q.key[:]), cmp.Compare(p.id, q.id))
}

func (p place) String() string {
	return fmt.Sprintf("%x-%x-%x-%x", p.key[0], p.key[1], p.key[2], p.id)
}

func parsePlace(text string) (p place, err error) {
	parts := strings.Split(text, "-")
	if len(parts) != 4 {
		return p, strconv.ErrSyntax
	}
	for i, to := range []*uint64{&p.key[0], &p.key[1], &p.key[2], &p.id} {
		if *to, err = strconv.ParseUint(parts[i], 16, 64); err != nil {
			return p, err
		}
	}
	return p, nil
}

// parseQuery reads a query. Its error is ErrArgument, and names the parameter, its value and the
// limit.
func parseQuery(values url.Values, hidden bool) (q query, err error) {
	r := reader{values: values}
	states := append(slices.Clone(view.States), "closed")
	q.shown = r.oneOf("state", states)
	q.closed = q.shown == "closed"
	if !q.closed && q.shown != view.Open {
		q.state = q.shown
	}
	sortings := openSortings
	if q.closed {
		sortings = closedSortings
	}
	if hidden { // the order would tell the addresses
		sortings = slices.DeleteFunc(slices.Clone(sortings), func(s sorting) bool { return s.name == byAddr.name })
	}
	names := make([]string, len(sortings))
	for i, s := range sortings {
		names[i] = s.name
	}
	q.sort = sortings[slices.Index(names, r.oneOf("sort", names))]
	orders := []string{"asc", "desc"}
	if q.sort.desc {
		slices.Reverse(orders)
	}
	q.order = r.oneOf("order", orders)
	q.desc = q.order == "desc"
	q.limit = int(r.number("limit", defaultLimit, maxLimit))
	q.id = r.number("id", 0, math.MaxInt64)
	q.after, q.before = r.place("after"), r.place("before")
	if q.after != nil && q.before != nil {
		r.wrong("before", "must not come with after")
	}
	r.addr(&q, hidden)
	q.label = strings.ToLower(r.text("label"))
	if q.key = r.text("key"); q.key != "" && q.closed {
		r.wrong("key", "must not come with state=closed")
	}
	if values.Get("reason") != "" {
		q.reason = r.oneOf("reason", reasonNames())
	}
	if q.reason != "" && !q.closed {
		r.wrong("reason", "must come with state=closed")
	}
	q.minAge, q.minIdle = r.duration("min_age"), r.duration("min_idle")
	return q, r.err
}

func reasonNames() (names []string) {
	for _, r := range keepalive.Reasons() {
		names = append(names, r.String())
	}
	return names
}

// reader reads parameters, and keeps the first error.
type reader struct {
	values url.Values
	err    error
}

func (r *reader) wrong(name, must string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: %s %.40q, %s", ErrArgument, name, r.values.Get(name), must)
	}
}

// oneOf returns one of some words. The first is the default.
func (r *reader) oneOf(name string, words []string) string {
	got := cmp.Or(r.values.Get(name), words[0])
	if !slices.Contains(words, got) {
		r.wrong(name, "must be one of "+strings.Join(words, ", "))
		return words[0]
	}
	return got
}

func (r *reader) number(name string, byDefault, most uint64) uint64 {
	text := r.values.Get(name)
	if text == "" {
		return byDefault
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n == 0 || n > most {
		r.wrong(name, fmt.Sprintf("must be a number from 1 to %d", most))
	}
	return n
}

func (r *reader) duration(name string) time.Duration {
	text := r.values.Get(name)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		r.wrong(name, "must be a duration such as 90s or 1h30m")
	}
	return d
}

func (r *reader) place(name string) *place {
	text := r.values.Get(name)
	if text == "" {
		return nil
	}
	p, err := parsePlace(text)
	if err != nil {
		r.wrong(name, "must be the next or the previous of an answer")
	}
	return &p
}

func (r *reader) text(name string) string {
	text := r.values.Get(name)
	if len(text) > maxText {
		r.wrong(name, fmt.Sprintf("is of %d bytes, must be of at most %d", len(text), maxText))
	}
	return text
}

// addr reads the address to look for. Hidden addresses have names only: an answer about an
// address would tell it.
func (r *reader) addr(q *query, hidden bool) {
	text := r.text("addr")
	switch {
	case text == "":
	case hidden:
		if q.name = text; !strings.HasPrefix(text, hiddenPrefix) {
			r.wrong("addr", "must be a name such as "+hiddenPrefix+"0123456789: addresses are hidden")
		}
	default:
		if q.addr = addrMatcher(text); q.addr == nil {
			r.wrong("addr", "must be an IP address, with a port or without, or a prefix such as 10.0.0.0/8")
		}
	}
}

// addrMatcher returns what reports whether an address is the one in a text, or nil if the text
// has none.
func addrMatcher(text string) func(netip.AddrPort) bool {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		if a := prefix.Addr(); a.Is4In6() && prefix.Bits() >= 96 {
			prefix = netip.PrefixFrom(a.Unmap(), prefix.Bits()-96)
		}
		return func(a netip.AddrPort) bool { return prefix.Contains(a.Addr()) }
	}
	if whole, err := netip.ParseAddrPort(text); err == nil {
		whole = unmapped(whole)
		return func(a netip.AddrPort) bool { return a == whole }
	}
	if addr, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		addr = unmapped(netip.AddrPortFrom(addr, 0)).Addr()
		return func(a netip.AddrPort) bool { return a.Addr() == addr }
	}
	return nil
}
