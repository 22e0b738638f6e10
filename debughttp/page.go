package debughttp

import (
	"embed"

	"github.com/heartwheel-go/heartwheel/internal/webpage"
)

//go:embed page
var files embed.FS

// page and connectionsPage are the documents. They are the same for all: their figures come
// later, as JSON.
var (
	page            = webpage.Make(files, "page/rows.css", "page/address.js", "page/wheel.js", "page/advice.js", "page/tables.js", "page/main.js")
	connectionsPage = webpage.MakeNamed("page/connections", files, "page/rows.css", "page/address.js", "page/tables.js", "page/connections.js")
)
