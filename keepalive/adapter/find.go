package adapter

import "github.com/heartwheel-go/heartwheel/internal/cow"

// finders are the functions given to Find.
var finders cow.List[func(conn any) Binding]

// Find gives keepalive.Of a way to the guards of a framework without a place for them: f returns
// the Binding of a connection. For connections that it does not know, it returns nil, or the Binding of a nil Guard. It is called for all kinds
// of connections, and by any goroutine. Call Find when the program is initialized.
//
// Packages are initialized one at a time, but connections may be looked for meanwhile, also while a
// plugin is loaded.
func Find(f func(conn any) Binding) { finders.Add(f) }

// Found returns what the functions given to Find know of a connection, or nil.
func Found(conn any) Binding {
	for _, f := range finders.All() {
		if b := f(conn); b != nil && b.Conn() != nil {
			return b
		}
	}
	return nil
}
