package debughttp

import (
	"encoding/binary"
	"math"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/heartwheel-go/heartwheel/internal/view"
	"github.com/heartwheel-go/heartwheel/keepalive"
)

var keeping = view.Get[keepalive.Keeper, keepalive.Guard, keepalive.Reason]()

// entry is a connection on its way into a page: an open one, or an ended one.
type entry struct {
	view.Conn
	guard *keepalive.Guard // nil for an ended one
	end   *ended           // nil for an open one
	place place
}

// matches reports whether a query is about an entry. now is the Keeper's time.
func (q *query) matches(h *Handler, e *entry, now time.Duration) bool {
	age, idle := max(0, now-e.Opened), max(0, now-e.Touched) // it may be younger than the look
	if e.end != nil {
		age, idle = e.end.Age, e.end.Idle
	}
	switch {
	case q.id != 0 && e.ID != q.id,
		q.state != "" && e.State != q.state,
		age < q.minAge, idle < q.minIdle,
		q.reason != "" && e.end.Reason.String() != q.reason,
		q.addr != nil && !q.addr(ipOf(e.Remote)),
		q.name != "" && h.names.of(e.Remote) != q.name,
		q.key != "" && h.names.user(e.Key) != q.key:
		return false
	}
	return q.label == "" || strings.Contains(strings.ToLower(h.labelOf(e)), q.label)
}

// labelOf returns the program's label of a connection.
func (h *Handler) labelOf(e *entry) string {
	if e.end != nil {
		return e.end.label
	}
	return h.label(e.guard.Conn())
}

// label asks the program. A panic is no label.
func (h *Handler) label(conn any) (label string) {
	if h.cfg.Label == nil {
		return ""
	}
	defer func() {
		if recover() != nil {
			label = ""
		}
	}()
	return printable(h.cfg.Label(conn))
}

// addrKey sorts by address and port. Anything but an IP address comes last.
func addrKey(e *entry) key {
	addr := ipOf(e.Remote)
	if !addr.IsValid() {
		return key{math.MaxUint64, math.MaxUint64, math.MaxUint64}
	}
	b := addr.Addr().As16()
	return key{binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:]), uint64(addr.Port())}
}

// leftKey sorts by the deadline. No end comes last.
func leftKey(e *entry) key {
	at, why, ok := keeping.Deadline(e.guard)
	if !ok || why == 0 {
		return key{math.MaxUint64}
	}
	return key{uint64(max(0, at))}
}

// ipOf returns the IP address and port in an address, or the zero AddrPort.
func ipOf(addr net.Addr) netip.AddrPort {
	switch a := addr.(type) {
	case nil, *net.UnixAddr:
		return netip.AddrPort{} // a client chose its text, perhaps "192.0.2.1:80"
	case *net.TCPAddr:
		return unmapped(a.AddrPort())
	case *net.UDPAddr:
		return unmapped(a.AddrPort())
	}
	found, err := netip.ParseAddrPort(textOfAddr(addr))
	if err != nil {
		return netip.AddrPort{}
	}
	return unmapped(found)
}

// unmapped returns an address without a mapping into IPv6, and without a zone.
func unmapped(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}
