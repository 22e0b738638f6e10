package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"io"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the number of the user and of its group. It has no rights on any system, and Kubernetes sees that it is
// not root: with a name in its place it can't.
const user = "65532"

// passwd names the user. Some libraries and tools ask for a name.
const passwd = "nonroot:x:" + user + ":" + user + "::/:/sbin/nologin\n"

// file is a file of an image. The directories above it are made by the program that unpacks it, and are root's.
type file struct {
	name    string
	mode    int64
	content []byte
}

// files returns all files of a program's image.
func files(p program, binary []byte) []file {
	return []file{
		{p.name, 0o555, binary},
		{"etc/passwd", 0o444, []byte(passwd)},
		{"etc/ssl/certs/ca-certificates.crt", 0o444, certificates()},
	}
}

// certificates returns the roots that browsers trust. They are of a Go module, so go.mod fixes them, whatever
// this machine trusts. Roots with a condition are left out, since PEM can't say it.
func certificates() []byte {
	var all bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&all, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})
		}
	}
	return all.Bytes()
}

// layer packs files, all of one time.
func layer(files []file, modified time.Time) (v1.Layer, error) {
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, f := range files {
		header := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), ModTime: modified, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil }
	return tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer))
}
