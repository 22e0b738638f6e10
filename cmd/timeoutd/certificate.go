package main

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
)

// certificate is one in two files. A handshake reads it again if they have changed. As long as they make no sense,
// as between two writes, the one before is used.
type certificate struct {
	certFile, keyFile string
	log               *slog.Logger

	mu     sync.Mutex
	now    *tls.Certificate
	files  [2]string // their times and sizes when now was read
	failed string    // the last error that was logged
}

// openTLS reads the certificate of the server and its key, as PEM. It returns nil if there is none.
func (o *options) openTLS(log *slog.Logger) (*tls.Config, error) {
	if o.tlsCert == "" {
		return nil, nil
	}
	c := &certificate{certFile: o.tlsCert, keyFile: o.tlsKey, log: log}
	if err := c.load(); err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: c.get}, nil
}

func (c *certificate) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch err := c.load(); {
	case err == nil:
		c.failed = ""
	case err.Error() != c.failed:
		c.failed = err.Error()
		c.log.Warn("the certificate can't be read, and the one before is used", "err", err)
	}
	return c.now, nil
}

// load reads the files if they have changed. c.mu must be held.
func (c *certificate) load() error {
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
