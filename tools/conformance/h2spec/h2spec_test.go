//go:build conformance

// Package h2spec runs h2spec, a suite for servers of HTTP/2, against net/http on guarded connections.
package h2spec

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/summerwind/h2spec/config"
	"github.com/summerwind/h2spec/generic"
	"github.com/summerwind/h2spec/hpack"
	"github.com/summerwind/h2spec/http2"
	"github.com/summerwind/h2spec/spec"

	"github.com/heartwheel-go/heartwheel/keepalive"
	"github.com/heartwheel-go/heartwheel/tools/conformance/guard"
)

// patience is how long a case waits for an answer: longer than the second for which net/http keeps a
// connection open behind its GOAWAY.
const patience = 3 * time.Second

func TestServer(t *testing.T) {
	quiet(t)
	for _, secure := range []bool{false, true} {
		srv := serve(secure)
		t.Cleanup(srv.Close)
		cfg := &config.Config{
			Host: "127.0.0.1", Port: srv.Listener.Addr().(*net.TCPAddr).Port, Path: "/",
			Timeout: patience, MaxHeaderLen: 4000, Strict: true, TLS: secure, Insecure: true,
		}
		slow := *cfg
		slow.Path = "/slow"
		for _, root := range []*spec.TestGroup{generic.Spec(), http2.Spec(), hpack.Spec()} {
			run(t, fmt.Sprintf("tls=%v", secure), root, func(group string) *config.Config {
				if group == "http2/6.9.1" { // its frames are for a stream that is still open
					return &slow
				}
				return cfg
			})
		}
	}
}

func serve(secure bool) *httptest.Server {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return // the case is about a wrong body
		}
		if r.URL.Path == "/slow" {
			time.Sleep(patience / 4)
		}
		_, _ = w.Write([]byte("hello, this is a page"))
	}))
	guard.GuardServer(keepalive.ActivityRead, srv)
	if secure {
		srv.EnableHTTP2 = true
		srv.StartTLS()
		return srv
	}
	srv.Config.Protocols = new(http.Protocols)
	srv.Config.Protocols.SetUnencryptedHTTP2(true)
	srv.Start()
	return srv
}

// run runs the cases of a group and of those in it, each as a test.
func run(t *testing.T, prefix string, group *spec.TestGroup, cfg func(group string) *config.Config) {
	for i, c := range append(group.Tests, group.StrictTests...) {
		t.Run(fmt.Sprintf("%s/%s/%d %s", prefix, group.ID(), i+1, c.Desc), func(t *testing.T) {
			if err := c.Test(cfg(group.ID()), i+1); err != nil {
				t.Fatal(err)
			}
			switch {
			case c.Result.Failed:
				t.Error(c.Result.Error)
			case c.Result.Skipped:
				t.Skip(c.Result.Error)
			}
		})
	}
	for _, g := range group.Groups {
		run(t, prefix, g, cfg)
	}
}

// quiet keeps h2spec from writing between the lines of package testing.
func quiet(t *testing.T) {
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = null
	t.Cleanup(func() {
		os.Stdout = stdout
		_ = null.Close()
	})
}
