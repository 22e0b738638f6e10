// Package pool keeps the set of live members of something, and a deadline for
// each: a member that is not touched for its timeout is due, and whoever made
// the pool decides what that means. It knows nothing of sockets; package
// keepalive puts connections into it.
//
//	p, err := pool.New(pool.Config[*Session]{
//		Timeout:  30 * time.Second,
//		Capacity: 100_000,
//		Due: func(m *pool.Member[*Session], s *Session) {
//			if _, ok := m.Expire(); ok {
//				s.End()
//			}
//		},
//	})
//	...
//	m, err := p.Add(session)
//	m.Touch()  // it lives
//	m.Remove() // it has left
//
// # When not to use this package
//
// For deadlines without a set around them, take package wheel. For connections,
// take package keepalive.
package pool
