package main

import (
	_ "embed" // the template and the style sheet
	"fmt"
	"html/template"
	"os"
	"strings"

	"github.com/heartwheel-go/heartwheel/loadtest/plot"
)

//go:embed page.css
var pageCSS template.CSS

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// page is a report for a reader: a single file, complete in itself.
type page struct {
	*report
	About    []string // what was done, in words
	Tiles    []tile   // the figures that matter most
	Phases   []phaseRow
	Settings []row
	Styles   []template.CSS
	Charts   []template.HTML
	Tables   []plot.Table
}

// writeHTML writes the page of a run with a history.
func (r *report) writeHTML(file string, cfg config) error {
	res := r.result
	p := page{
		report:   r,
		About:    r.about(cfg),
		Tiles:    r.tiles(),
		Phases:   r.phaseRows(cfg, res.history),
		Settings: r.settingRows(cfg),
		Styles:   []template.CSS{plot.CSS, pageCSS},
	}
	charts := res.history.charts(cfg, res)
	for _, c := range charts {
		html, err := c.HTML()
		if err != nil {
			return fmt.Errorf("writing the page: %w", err)
		}
		p.Charts = append(p.Charts, html)
	}
	p.Tables = plot.Tables(charts)
	var b strings.Builder
	if err := pageTemplate.Execute(&b, p); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}
