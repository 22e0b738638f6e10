package proxyprotocol

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync/atomic"
)

// Headers is a [Config] for an adapter. [NewHeaders] makes one. A nil Headers expects no header of anybody. All methods are
// safe for concurrent use.
type Headers struct {
	cfg    Config
	log    *slog.Logger
	warned atomic.Bool
}

// NewHeaders returns the error of Config.Validate. log is the Keeper's, see adapter.Binder.
func NewHeaders(cfg Config, log *slog.Logger) (*Headers, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Trusted = slices.Clone(cfg.Trusted)
	return &Headers{cfg: cfg, log: log}, nil
}

// Expects reports whether a new connection from an address begins with a header. An error, which is logged, says that the
// adapter closes the connection, and guards none: it wraps [ErrUntrusted].
func (h *Headers) Expects(remote net.Addr) (header bool, err error) {
	switch {
	case h == nil:
		return false, nil
	case h.cfg.trusts(remote):
		return true, nil
	case h.cfg.Optional:
		return false, nil
	}
	return false, h.refuse(remote, ErrUntrusted)
}

// Parse is the function [Parse] for a connection from an address that begins with a header. If no header is fine, too, it is
// one of size 0 without a source. An error, which is logged, says that the adapter closes the connection.
func (h *Headers) Parse(remote net.Addr, b []byte) (header Header, whole bool, err error) {
	header, whole, err = Parse(b)
	switch {
	case err == nil:
		return header, whole, nil
	case h.cfg.Optional && errors.Is(err, ErrNoHeader):
		return Header{}, true, nil
	}
	return Header{}, false, h.refuse(remote, err)
}

// refuse logs a connection that is closed for its header. It may be the first of very many.
func (h *Headers) refuse(remote net.Addr, err error) error {
	log := h.log.Debug
	if h.warned.CompareAndSwap(false, true) {
		log = h.log.Warn
	}
	log("proxyprotocol: closing a connection for its header; later ones are logged at Debug", "remote", fmt.Sprint(remote), "error", err)
	return err
}

// trusts reports whether headers from an address are believed.
func (c Config) trusts(remote net.Addr) bool {
	switch a := remote.(type) {
	case *net.UnixAddr:
		return true
	case *net.TCPAddr:
		ip := a.AddrPort().Addr().Unmap().WithZone("")
		for _, network := range c.Trusted {
			if network.Contains(ip) {
				return true
			}
		}
	}
	return false
}

// Rename makes the address that a framework keeps for a connection that of its client: frameworks have no other way. Both
// must be a *net.TCPAddr, or nothing happens. Nobody else may use remote at the same time.
func Rename(remote, client net.Addr) {
	to, ok := client.(*net.TCPAddr)
	if tcp, isTCP := remote.(*net.TCPAddr); ok && isTCP {
		*tcp = *to
	}
}

// Copy returns a copy of an address that is about to be renamed.
func Copy(remote net.Addr) net.Addr {
	if tcp, ok := remote.(*net.TCPAddr); ok {
		return &net.TCPAddr{IP: tcp.IP, Port: tcp.Port, Zone: tcp.Zone}
	}
	return remote
}
