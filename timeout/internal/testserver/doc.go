// Package testserver starts real servers for tests: Redis, alone and as a Cluster,
// PostgreSQL, etcd, ZooKeeper and NATS. Each is a process of its own, on a free port of the
// loopback interface, with a directory of its own. It ends with the test that started it,
// and on Linux with the test binary too, whatever that dies of. The programs are Debian's:
// scripts/install-servers installs them. Where one is missing the test fails, and is never
// skipped.
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
// RedisWithClock and PostgresWithClock start servers whose clocks can be set.
//
// Starting a server takes from 50 ms (Redis) to 2 s (ZooKeeper, Redis Cluster). Where tests do
// not harm each other they can share one: the functions whose names begin with Shared start
// it once for all tests of a package, and Main stops it.
package testserver
