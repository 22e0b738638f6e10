//go:build interop && unix

package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
)

// Two processes with one name both log it, and show it to Prometheus. They stay ready. A process
// that starts under the name of one just killed says nothing of it.
func TestTwoProcessesWithOneNameAreTold(t *testing.T) {
	t.Parallel()
	for name, with := range map[string]func(t *testing.T) process{
		"file": func(t *testing.T) process {
			return process{args: []string{"-sqlite", filepath.Join(t.TempDir(), "tasks.db")}}
		},
		"redis":    func(t *testing.T) process { return process{env: []string{"REDIS_URL=" + newRedis(t).URL}} },
		"postgres": func(t *testing.T) process { return process{env: []string{"DATABASE_URL=" + testserver.Database(t)}} },
		"etcd": func(t *testing.T) process {
			return process{env: []string{"REDIS_URL=" + newRedis(t).URL, "ETCD_ENDPOINTS=" + newEtcd(t).Addr}}
		},
		"zookeeper": func(t *testing.T) process {
			return process{env: []string{"REDIS_URL=" + newRedis(t).URL, "ZOOKEEPER=" + testserver.ZooKeeper(t).Addr}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := with(t)
			t.Parallel()
			p.args = append(p.args, "-node", "same", "-ttl", "3s")
			a, b := start(t, p), start(t, p)
			const told = `level=ERROR msg="timeout: another running node has this node's name.*-node.*node=same run=[A-Z2-7]+ other=([A-Z2-7]+) for=`
			taken := func(p *process) bool {
				_, body := p.ask(t, http.MethodGet, "/metrics", "")
				return strings.Contains(body, "heartwheel_timeout_name_taken 1\n")
			}
			require.NotEqual(t, a.logged(t, told), b.logged(t, told))
			for _, p := range []*process{a, b} {
				require.Eventually(t, func() bool { return taken(p) }, eternal, 200*time.Millisecond)
				status, body := p.ask(t, http.MethodGet, "/readyz", "")
				require.Equal(t, http.StatusOK, status, body)
			}
			b.set(t, "orders/tasks/1", `{"after":"1h"}`)

			require.NoError(t, b.cmd.Process.Kill())
			_ = b.wait()
			require.Eventually(t, func() bool { return !taken(a) }, eternal, 200*time.Millisecond)
			a.logged(t, "no other node has this node's name any more")
			require.NoError(t, a.cmd.Process.Kill())
			_ = a.wait()
			c := start(t, p)
			for begun := time.Now(); time.Since(begun) < 8*time.Second; time.Sleep(400 * time.Millisecond) {
				require.False(t, taken(c))
			}
			require.NotContains(t, c.log.String(), "this node's name")
		})
	}
}
