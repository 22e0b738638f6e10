package engine

// Migration is a change of the tables of an engine.
type Migration struct {
	Version int // of the tables after it, from 1
	Name    string
	SQL     string
}
