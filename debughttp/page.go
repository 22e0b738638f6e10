package debughttp

import (
	"embed"

	"github.com/heartwheel-go/heartwheel/internal/webpage"
)

//go:embed page
var files embed.FS

// page is the document. It is the same for all: its figures come later, as JSON.
var page = webpage.Make(files, "page/wheel.js", "page/advice.js", "page/tables.js", "page/main.js")
