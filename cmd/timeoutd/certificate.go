package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// lookEvery is how often files of a certificate are looked at, by handshakes.
const lookEvery = time.Second

// certificate is one in two files. It is read again when they change. As long as they make no sense,
// as between two writes, the one before is used.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu     sync.Mutex
	now    *tls.Certificate
	files  [2]string // their times and sizes when now was read
	looked time.Time
	failed string // the last error that was logged
}

// openCertificate reads a certificate and its key, as PEM.
func openCertificate(certFile, keyFile string, log *slog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	return c, c.load(time.Now())
}

// openTLS returns the TLS of the server, or nil if there is no certificate.
func (o *options) openTLS(log *slog.Logger) (*tls.Config, error) {
	if o.tlsCert == "" {
		return nil, nil
	}
	c, err := openCertificate(o.tlsCert, o.tlsKey, log)
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}, nil
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= lookEvery {
		err := c.load(now)
		switch {
		case err == nil:
			c.failed = ""
		case err.Error() != c.failed:
			c.failed = err.Error()
			c.log.Warn("the certificate can't be read, and the one before is used", "err", err)
		}
	}
	return c.now, nil
}

// load reads the files if they have changed. c.mu must be held.
func (c *certificate) load(now time.Time) error {
	c.looked = now
	var files [2]string
	for i, name := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return fmt.Errorf("tls: %w", err)
		}
		files[i] = fmt.Sprint(info.ModTime(), info.Size())
	}
	if c.now != nil && files == c.files {
		return nil
	}
	read, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("tls: %s with %s: %w", c.certFile, c.keyFile, err)
	}
	c.now, c.files = &read, files
	c.log.Info("certificate", "file", c.certFile, "until", read.Leaf.NotAfter)
	return nil
}
