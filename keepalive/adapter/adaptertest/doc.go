// Package adaptertest is the conformance suite of keepalive's adapters. The adapters for net and
// for gnet pass it. A third one takes a small server and a test:
//
//	func TestTheAdapterConforms(t *testing.T) {
//		adaptertest.Run(t, adaptertest.Adapter{Start: start})
//	}
//
// # The server
//
// The suite is the client. It starts a server for each of its tests, and dials it over real
// sockets. The server reads lines, passes each to the suite's [Handler], and writes the answer.
// With a goroutine for each connection:
//
//	func serve(conn net.Conn, handle adaptertest.Handler) {
//		defer conn.Close()
//		for lines := bufio.NewScanner(conn); lines.Scan(); {
//			answer, stay := handle(conn, lines.Text())
//			if _, err := conn.Write(answer); err != nil || !stay {
//				return
//			}
//		}
//	}
//
// The handler touches connections, and blocks for as long as a test of stalls needs. The
// server knows nothing of this. It must read and handle as the framework's programs do: on
// the goroutine, or in the event loop, of the connection.
//
// # Properties
//
// A framework may lack something: datagrams have no half close. The booleans of [Adapter] say
// so, and the suite then tests that it is missing. So nobody can claim too much, nor too little,
// and [Run] returns the properties of the adapter. docs/frameworks.md has a row of each adapter.
//
// # Time
//
// A run takes a few seconds. It waits more than it works, so the tests run at the same time.
// The clock is real, and the machine may be busy. So the suite compares the end of a connection
// with the instants of its client's lines. An early end is always a fault. A late end is one
// after a minute. If the suite itself was too slow to keep a connection alive, it tries again.
//
// Config.Rate counts over ten seconds, too long for the suite.
package adaptertest
