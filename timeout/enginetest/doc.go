// Package enginetest is the conformance suite of timeout's engines: what an Engine says in
// package timeout is what is tested here, in the same way for all of them.
//
//	func TestItDoesWhatEveryEngineMust(t *testing.T) {
//		engine, err := memory.New(memory.Config{})
//		require.NoError(t, err)
//		defer engine.Close()
//		enginetest.Run(t, engine, enginetest.Options{})
//	}
//
// Times are real, since an engine's clock may be that of a server: a run takes some ten
// seconds, most of which is waiting. No test depends on how fast the machine is, but for
// limits that are many times what is needed.
package enginetest
