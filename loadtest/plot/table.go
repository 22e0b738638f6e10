package plot

import "slices"

// Table is what charts show, in figures.
type Table struct {
	Name    string
	Columns []string
	Rows    [][]string
}

// Tables returns the figures of all charts: one table for all charts with the same intervals, with a
// column for each series.
func Tables(charts []Chart) (tables []Table) {
	done := make([]bool, len(charts))
	for i, c := range charts {
		if done[i] {
			continue
		}
		t := Table{Name: c.Title, Columns: []string{"from"}, Rows: make([][]string, len(c.Edges)-1)}
		for row := range t.Rows {
			t.Rows[row] = []string{c.X.Write(c.Edges[row])}
		}
		for j := i; j < len(charts); j++ {
			if slices.Equal(c.Edges, charts[j].Edges) {
				t.add(charts[j])
				if done[j] = true; j > i {
					t.Name += ", " + charts[j].Title
				}
			}
		}
		tables = append(tables, t)
	}
	return tables
}

func (t *Table) add(c Chart) {
	for _, s := range c.Series {
		if s.Shape == Range {
			continue
		}
		t.Columns = append(t.Columns, c.Title+", "+s.Name)
		for i, v := range s.Values {
			cell := ""
			if !missing(v) {
				cell = c.Y.Write(v)
			}
			t.Rows[i] = append(t.Rows[i], cell)
		}
	}
}
