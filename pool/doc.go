// Package pool keeps a set of live members with a deadline for each, a capacity, and a way
// to make room. A member without a touch for its timeout is due, and Config.Due decides
// whether it stays. The package knows nothing of sockets; package keepalive puts connections into
// it.
//
//	p, err := pool.New(pool.Config[*Session]{
//		Capacity: 100_000,
//		Due: func(m *pool.Member[*Session], s *Session) {
//			if _, ok := m.Expire(); ok {
//				s.End()
//			}
//		},
//	})
//	...
//	m := new(pool.Member[*Session])
//	err = p.Join(m, session, 30*time.Second)
//	m.Touch()  // it lives
//	m.Remove() // it has left
//
// # When not to use this package
//
// For deadlines without a set around them, take package wheel. For connections, take
// package keepalive.
package pool
