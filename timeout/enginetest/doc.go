// Package enginetest is the conformance suite of engines: it tests the contract of package engine in
// the same way for all of them.
//
//	func TestItDoesWhatEveryEngineMust(t *testing.T) {
//		engine, err := memory.New(memory.Config{})
//		require.NoError(t, err)
//		defer engine.Close()
//		enginetest.Run(t, engine, enginetest.Options{})
//	}
//
// Package toy is an engine for your first look: it passes, and is short.
//
// Times are real, since an engine's clock may be that of a server. A run takes some ten seconds, and
// mostly waits. No test depends on the speed of the machine, except for limits many times as long as
// needed.
package enginetest
