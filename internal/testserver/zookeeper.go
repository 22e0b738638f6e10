package testserver

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// zookeeperJar knows the places of the other jars.
const zookeeperJar = "/usr/share/java/zookeeper.jar"

// ZooKeeper starts a single ZooKeeper server. Sessions may end after as little as 200 ms of
// silence, and are checked every 100 ms. The settings are lines of its zoo.cfg, "name=value".
func ZooKeeper(t testing.TB, settings ...string) *Server {
	t.Helper()
	return start(t, zookeeper(settings...))
}

// SharedZooKeeper returns the ZooKeeper server shared by the tests of this package. The tests
// must keep their nodes apart.
func SharedZooKeeper(t testing.TB) *Server {
	t.Helper()
	return sharedZooKeeper.get(t, zookeeper())
}

var sharedZooKeeper shared

func zookeeper(settings ...string) program {
	return program{
		name:   "zookeeper",
		scheme: "zookeeper",
		prepare: func(s *Server) error {
			if _, err := os.Stat(zookeeperJar); err != nil {
				return missing("ZooKeeper ("+zookeeperJar+")", "libzookeeper-java")
			}
			lines := append([]string{
				"clientPortAddress=127.0.0.1", fmt.Sprint("clientPort=", s.port),
				"dataDir=" + filepath.Join(s.Dir, "data"), "admin.enableServer=false",
				"tickTime=100", "minSessionTimeout=200", "maxSessionTimeout=600000",
				"4lw.commands.whitelist=srvr,mntr,wchp",
			}, settings...)
			return os.WriteFile(filepath.Join(s.Dir, "zoo.cfg"), []byte(strings.Join(lines, "\n")+"\n"), 0o644)
		},
		command: func(s *Server) (string, []string, error) {
			name, err := find("java", "default-jre-headless")
			return name, []string{
				"-Xmx64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
				"-cp", zookeeperJar, "org.apache.zookeeper.server.ZooKeeperServerMain", filepath.Join(s.Dir, "zoo.cfg"),
			}, err
		},
		ready: serving,
		stop:  syscall.SIGTERM,
		quit:  syscall.SIGKILL,
	}
}

// serving asks a ZooKeeper server whether it serves.
func serving(ctx context.Context, s *Server) error {
	conn, err := dial(ctx, s.Addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("srvr")); err != nil {
		return err
	}
	said, err := io.ReadAll(conn)
	if err == nil && !strings.Contains(string(said), "Mode: ") {
		err = fmt.Errorf("zookeeper answers %q", said)
	}
	return err
}
