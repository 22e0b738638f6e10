//go:build !unix

package connpool

// look can't ask a socket here.
func look(uintptr) (state, error) { return quiet, nil }
