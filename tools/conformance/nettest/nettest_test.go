//go:build conformance

// Package nettest runs the tests of golang.org/x/net/nettest for a net.Conn on guarded connections of each
// kind.
package nettest

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"testing"

	"golang.org/x/net/nettest"

	"github.com/heartwheel-go/heartwheel/tools/conformance/guard"
)

// ends guards the two ends of a connection: the dialling one, and the accepted one.
type ends struct {
	name              string
	dialled, accepted func(net.Conn) net.Conn
}

func TestConn(t *testing.T) {
	for _, activity := range guard.Activities {
		guarded := func(c net.Conn) net.Conn { return guard.Conn(activity, c) }
		bare := func(c net.Conn) net.Conn { return c }
		for _, e := range []ends{{"both", guarded, guarded}, {"dialled", guarded, bare}, {"accepted", bare, guarded}} {
			for _, k := range kinds {
				t.Run(fmt.Sprintf("%v/%s/%s", activity, k.name, e.name), func(t *testing.T) {
					t.Parallel()
					nettest.TestConn(t, func() (c1, c2 net.Conn, stop func(), err error) {
						c1, c2, err = k.pipe(e)
						return c1, c2, func() { _, _ = c1.Close(), c2.Close() }, err
					})
				})
			}
		}
	}
}

var kinds = []struct {
	name string
	pipe func(e ends) (dialled, accepted net.Conn, err error)
}{
	{"tcp", func(e ends) (net.Conn, net.Conn, error) { return sockets("tcp", e) }},
	{"unix", func(e ends) (net.Conn, net.Conn, error) { return sockets("unix", e) }},
	{"unixpacket", func(e ends) (net.Conn, net.Conn, error) { return sockets("unixpacket", e) }},
	{"pipe", func(e ends) (net.Conn, net.Conn, error) {
		a, b := net.Pipe()
		return e.dialled(a), e.accepted(b), nil
	}},
	{"below-tls", func(e ends) (net.Conn, net.Conn, error) {
		dialled, accepted, err := sockets("tcp", e)
		if err != nil {
			return nil, nil, err
		}
		return overTLS(dialled, accepted)
	}},
	{"above-tls", func(e ends) (net.Conn, net.Conn, error) {
		bare := func(c net.Conn) net.Conn { return c }
		dialled, accepted, err := sockets("tcp", ends{"", bare, bare})
		if err != nil {
			return nil, nil, err
		}
		dialled, accepted, err = overTLS(dialled, accepted)
		if err != nil {
			return nil, nil, err
		}
		return e.dialled(dialled), e.accepted(accepted), nil
	}},
}

// sockets connects two sockets.
func sockets(network string, e ends) (dialled, accepted net.Conn, err error) {
	ln, err := nettest.NewLocalListener(network)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		_ = ln.Close()
		if network != "tcp" {
			_ = os.Remove(ln.Addr().String())
		}
	}()
	dialled, err = net.Dial(network, ln.Addr().String())
	if err != nil {
		return nil, nil, err
	}
	accepted, err = ln.Accept()
	if err != nil {
		_ = dialled.Close()
		return nil, nil, err
	}
	return e.dialled(dialled), e.accepted(accepted), nil
}

// certificate is that of package httptest, for example.com.
var certificate = func() tls.Certificate {
	srv := httptest.NewTLSServer(nil)
	defer srv.Close()
	return srv.TLS.Certificates[0]
}()

func overTLS(dialled, accepted net.Conn) (client, server net.Conn, err error) {
	s := tls.Server(accepted, &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12})
	c := tls.Client(dialled, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
	shaken := make(chan error, 1)
	go func() { shaken <- s.Handshake() }()
	if err := c.Handshake(); err != nil {
		return nil, nil, err
	}
	return c, s, <-shaken
}
