package adapter

import (
	"slices"
	"sync/atomic"
)

// finders are the functions given to Find.
var finders atomic.Pointer[[]func(conn any) Binding]

// Find gives keepalive.Of a way to the guards of a framework without a place for them: f returns
// the Binding of a connection. For connections that it does not know, it returns nil, or the Binding of a nil Guard. It is called for all kinds
// of connections, and by any goroutine. Call Find when the program is initialized.
//
// Packages are initialized one at a time, but connections may be looked for meanwhile, also while a
// plugin is loaded.
func Find(f func(conn any) Binding) {
	var all []func(conn any) Binding
	if old := finders.Load(); old != nil {
		all = *old
	}
	all = append(slices.Clone(all), f)
	finders.Store(&all)
}

// Found returns what the functions given to Find know of a connection, or nil.
func Found(conn any) Binding {
	all := finders.Load()
	if all == nil {
		return nil
	}
	for _, f := range *all {
		if b := f(conn); b != nil && b.Conn() != nil {
			return b
		}
	}
	return nil
}
