package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/certtest"
)

// writePEM writes a new certificate and its key into two files, as their names say.
func writePEM(t *testing.T, certFile, keyFile string) *x509.CertPool {
	cert, roots := certtest.New(t)
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	require.NoError(t, err)
	for name, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: cert.Certificate[0]},
		keyFile:  {Type: "PRIVATE KEY", Bytes: key},
	} {
		if name != "" {
			require.NoError(t, os.WriteFile(name, pem.EncodeToMemory(block), 0o600))
		}
	}
	return roots
}

// The program speaks HTTPS, and a new certificate is used without a restart. Files that make no sense
// change nothing.
func TestHTTPSWithACertificateThatChanges(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	first := writePEM(t, cert, key)
	p := start(t, process{args: []string{"-memory", "-tls-cert", cert, "-tls-key", key}})
	p.logged(t, `url=https://127.0.0.1:`)
	ask := func(roots *x509.CertPool) (proto string, err error) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, DisableKeepAlives: true}
		defer transport.CloseIdleConnections()
		client := http.Client{Timeout: eternal, Transport: transport}
		res, err := client.Get("https://" + p.addr(t) + "/readyz")
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.Equal(t, "ok\n", string(body))
		return res.Proto, nil
	}
	proto, err := ask(first)
	require.NoError(t, err)
	require.Equal(t, "HTTP/2.0", proto)
	status, text := p.ask(t, http.MethodGet, "/readyz", "") // without TLS
	require.Equal(t, http.StatusBadRequest, status)
	require.Contains(t, text, "HTTPS server")

	writePEM(t, cert, "") // of another key
	require.Eventually(t, func() bool {
		_, err := ask(first)
		require.NoError(t, err, "the one before is used")
		return strings.Contains(p.log.String(), "the certificate can't be read")
	}, eternal, 50*time.Millisecond)

	second := writePEM(t, cert, key)
	require.Eventually(t, func() bool { _, err := ask(second); return err == nil }, eternal, 50*time.Millisecond)
	_, err = ask(first)
	require.ErrorContains(t, err, "unknown authority")
	require.NoError(t, os.Remove(key))
	require.Eventually(t, func() bool {
		_, err := ask(second)
		require.NoError(t, err)
		return strings.Count(p.log.String(), "the certificate can't be read") == 2
	}, eternal, 50*time.Millisecond)
}

func TestACertificateThatIsNotThere(t *testing.T) {
	for args, want := range map[string]string{
		"-memory -tls-cert a.pem":                       `tls-cert "a.pem" and tls-key "", must be both or none`,
		"-memory -tls-key a.pem":                        `tls-cert "" and tls-key "a.pem", must be both or none`,
		"-memory -tls-cert /no/cert -tls-key /no/key":   "tls: stat /no/cert: no such file or directory",
		"-memory -tls-cert README.md -tls-key main.go ": "tls: README.md with main.go: tls: failed to find any PEM data",
	} {
		p := process{args: strings.Fields(args)}
		p.launch(t)
		require.Error(t, p.wait())
		require.Contains(t, strings.ReplaceAll(p.log.String(), `\"`, `"`), want)
	}
}
