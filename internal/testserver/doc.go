// Package testserver starts real servers for tests: Redis, alone and as a Cluster, PostgreSQL, etcd,
// ZooKeeper and NATS. Each is a process of its own, on a free port of the loopback interface, with a
// directory of its own. It ends with its test. On Linux it also ends with the test binary, whatever
// the cause. The programs are Debian's: scripts/install-servers installs them. If one is missing, the
// test fails. It is never skipped.
//
//	func TestMain(m *testing.M) { testserver.Main(m) }
//
//	func TestSurvivesARestart(t *testing.T) {
//		server := testserver.Redis(t, "--appendonly", "yes")
//		...
//		server.Kill(t)
//		server.Restart(t)
//		...
//	}
//
// RedisWithClock and PostgresWithClock start servers with an adjustable clock.
//
// Starting a server takes from 50 ms (Redis) to 2 s (ZooKeeper, Redis Cluster). Tests can share one if
// they do not harm each other. The functions with names beginning with Shared start it once for all
// tests of a package, and Main stops it.
package testserver
