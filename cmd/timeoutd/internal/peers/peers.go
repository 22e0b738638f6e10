// Package peers asks the other nodes for their figures.
package peers

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"

	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient"
	"github.com/heartwheel-go/heartwheel/timeout/timeoutclient/wire"
)

// Peers are the addresses of nodes. New makes them. Several goroutines may call Ask at the same time.
type Peers []peer

// peer is a URL. Each address of its host may be a node.
type peer struct {
	url *url.URL
	cfg timeoutclient.Config // of its clients
}

// New returns the nodes at URLs such as https://timeoutd-nodes:8077. A name may have several addresses,
// with a node at each. The token is sent to all of them; empty means none. The error wraps
// engine.ErrArgument.
func New(urls []string, token string) (p Peers, err error) {
	for _, text := range urls {
		if _, err := timeoutclient.New(text, timeoutclient.Config{}); err != nil {
			return nil, err
		}
		u, _ := url.Parse(text) // no error: timeoutclient has parsed it
		p = append(p, peer{u, timeoutclient.Config{Token: token, HTTPClient: &http.Client{Transport: &http.Transport{
			TLSClientConfig:     &tls.Config{ServerName: u.Hostname()}, // the requests are to addresses
			MaxIdleConnsPerHost: 1,
		}}}})
	}
	return p, nil
}

// Close closes idle connections.
func (p Peers) Close() error {
	for _, one := range p {
		one.cfg.HTTPClient.CloseIdleConnections()
	}
	return nil
}

// Ask asks all nodes at once until ctx ends. It returns the answers, perhaps several of one node, and an
// error for each address without an answer.
func (p Peers) Ask(ctx context.Context) (answers []wire.NodeStats, errs []error) {
	var asking sync.WaitGroup
	var mu sync.Mutex // guards the results
	told := func(at string, answer wire.NodeStats, err error) {
		mu.Lock()
		defer mu.Unlock()
		var failed *url.Error
		switch {
		case err == nil:
			answers = append(answers, answer)
			return
		case errors.Is(err, context.DeadlineExceeded):
			err = errors.New("no answer in time")
		case errors.As(err, &failed):
			err = failed.Err // the address is known
		}
		errs = append(errs, fmt.Errorf("%s: %w", at, err))
	}
	for _, one := range p {
		asking.Go(func() {
			addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", one.url.Hostname())
			if err != nil {
				told(one.url.String(), wire.NodeStats{}, err)
			}
			for _, addr := range addrs {
				asking.Go(func() {
					at, answer := one.at(addr), wire.NodeStats{}
					client, err := timeoutclient.New(at, one.cfg)
					if err == nil {
						answer, err = client.NodeStats(ctx)
					}
					told(at, answer, err)
				})
			}
		})
	}
	asking.Wait()
	return answers, errs
}

// at returns the URL with an address in place of the host.
func (p peer) at(addr netip.Addr) string {
	at := *p.url
	at.Host = net.JoinHostPort(addr.Unmap().String(), cmp.Or(at.Port(), map[string]string{"http": "80", "https": "443"}[at.Scheme]))
	return at.String()
}
