// Package page is the page of a timeout centre: what there is, who does it, what has gone
// wrong, and buttons for it. It has no build step, asks nobody but where it came from, and
// no text becomes markup in it. What it shows comes from package api, as JSON.
package page

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"net/http"
	"strconv"
)

//go:embed page
var files embed.FS

// scripts are the parts of the page's script, in the order in which they need each other.
var scripts = []string{
	"page/dom.js", "page/text.js", "page/chart.js", "page/histogram.js", "page/ask.js", "page/topics.js", "page/task.js", "page/tasks.js", "page/main.js",
}

// document is a page and the policy under which it runs: no script and no style but its
// own, and no request but to where it comes from. No text becomes markup in it.
type document struct {
	html   []byte
	policy string
}

var page = makePage(files)

// Handler returns what serves the page, which is the same for everybody.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", page.policy)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Length", strconv.Itoa(len(page.html)))
		if r.Method != http.MethodHead {
			_, _ = w.Write(page.html)
		}
	})
}

func makePage(from fs.FS) document {
	html, style := read(from, "page/page.html"), read(from, "page/page.css")
	var script []byte
	for _, name := range scripts {
		script = append(script, read(from, name)...)
	}
	html = bytes.Replace(html, []byte("/*style*/"), style, 1)
	html = bytes.Replace(html, []byte("/*script*/"), script, 1)
	return document{html, fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; connect-src 'self'; img-src data:; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
		hash(script), hash(style))}
}

// read reads a file that was there when this was compiled.
func read(from fs.FS, name string) []byte {
	b, err := fs.ReadFile(from, name)
	if err != nil {
		panic(err)
	}
	return b
}

// hash is what a policy calls a text by.
func hash(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}
