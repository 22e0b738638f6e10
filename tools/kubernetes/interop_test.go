//go:build interop

package kubernetes

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	core "k8s.io/api/core/v1"

	"github.com/heartwheel-go/heartwheel/internal/logtest"
)

const eternal = time.Minute // how long a test waits for a certain event

// start starts a program with the arguments of its manifest, on free ports of loopback. Its variables are the
// manifest's, too; their secrets are not there.
func start(t *testing.T, m manifest) (cmd *exec.Cmd, log *logtest.Log) {
	name := m.deployment.Name
	dir := t.TempDir()
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(dir, name), ".")
	build.Dir = filepath.Join("../../cmd", name)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)

	args := m.container().Args
	cmd, log = exec.Command(filepath.Join(dir, name)), new(logtest.Log)
	for _, arg := range args {
		switch flag, value, _ := strings.Cut(arg, "="); {
		case strings.HasPrefix(value, ":"):
			arg = flag + "=127.0.0.1:0"
		case flag == "-max-conns":
			arg = flag + "=100" // the limit of descriptors is low on many machines
		}
		cmd.Args = append(cmd.Args, arg)
	}
	cmd.Env = []string{"XDG_DATA_HOME=" + dir}
	for _, variable := range m.container().Env {
		value := variable.Value
		if value == "" {
			require.NotNil(t, variable.ValueFrom.SecretKeyRef, variable.Name)
			value = secret
		}
		if variable.Name != "DATABASE_URL" { // SQLite instead
			cmd.Env = append(cmd.Env, variable.Name+"="+value)
		}
	}
	cmd.Stderr = log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("it logged:\n%s", log)
		}
	})
	return cmd, log
}

const secret = "a-token-of-the-secret"

// url returns the page asked by a probe.
func url(t *testing.T, m manifest, log *logtest.Log, probe *core.Probe) string {
	listening := map[string]string{"addr": `"(?:server: )?listening","addr":"([^"]+)"`, "admin": `"admin: listening","addr":"([^"]+)"`}
	flag := m.port(t, probe.HTTPGet.Port.StrVal)
	return "http://" + log.Await(t, listening[flag]) + probe.HTTPGet.Path
}

// status asks as the kubelet does: the host is an IP address, and there is no token.
func status(url string) (status int) {
	res, err := (&http.Client{Timeout: eternal, Transport: &http.Transport{DisableKeepAlives: true}}).Get(url)
	if err != nil {
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}

func TestTheProgramsAnswerTheirProbes(t *testing.T) {
	for _, name := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := read(t, name)
			cmd, log := start(t, m)
			c := m.container()
			for _, probe := range []*core.Probe{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
				require.Eventually(t, func() bool { return status(url(t, m, log, probe)) == http.StatusOK }, eternal, 10*time.Millisecond)
			}
			require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
			log.Await(t, "going down|shutting down soon")
			require.Equal(t, http.StatusServiceUnavailable, status(url(t, m, log, c.ReadinessProbe)))
			require.Equal(t, http.StatusOK, status(url(t, m, log, c.LivenessProbe)), "it is not to be killed")
			require.NoError(t, cmd.Wait(), "it ends well")
		})
	}
}
