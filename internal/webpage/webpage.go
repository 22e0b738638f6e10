// Package webpage makes documents of this project's pages. They have no build step: a document is one
// text, with a style and a script. Its policy knows both by their hashes.
package webpage

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed shared
var shared embed.FS

// sharedScripts are the parts of all pages' scripts, each after those it needs.
var sharedScripts = []string{"shared/dom.js", "shared/text.js", "shared/chart.js", "shared/histogram.js", "shared/controls.js"}

// Document is a page and the policy under which it runs: no script and no style but its own, and no
// request but to its own origin. No text becomes markup in it.
type Document struct {
	HTML   []byte
	Policy string
}

// Make returns the document of page/page.html, with the common head for <!--head-->, page/page.css
// after the common style, and the scripts after the common scripts. A part with the ending .css is one more style, and not a script.
// The files were there at the time of compiling: Make panics if one is not.
func Make(files fs.FS, parts ...string) Document { return MakeNamed("page/page", files, parts...) }

// MakeNamed is Make for a document of another name: that of its HTML and its style, without their
// endings.
func MakeNamed(name string, files fs.FS, parts ...string) Document {
	html := bytes.Replace(read(files, name+".html"), []byte("<!--head-->\n"), read(shared, "shared/head.html"), 1)
	style := append(read(shared, "shared/base.css"), read(files, name+".css")...)
	var script []byte
	for _, name := range sharedScripts {
		script = append(script, read(shared, name)...)
	}
	for _, part := range parts {
		if strings.HasSuffix(part, ".css") {
			style = append(style, read(files, part)...)
		} else {
			script = append(script, read(files, part)...)
		}
	}
	html = bytes.Replace(html, []byte("/*style*/"), style, 1)
	html = bytes.Replace(html, []byte("/*script*/"), script, 1)
	return Document{html, fmt.Sprintf("default-src 'none'; script-src '%s'; style-src '%s'; connect-src 'self'; img-src data:; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'",
		hash(script), hash(style))}
}

func read(files fs.FS, name string) []byte {
	b, err := fs.ReadFile(files, name)
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
