// Package kubernetes checks deploy/kubernetes against the types of Kubernetes and against the programs.
package kubernetes

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

var programs = []string{"echo-heartbeat", "timeoutd"}

// manifest is a file of deploy/kubernetes.
type manifest struct {
	deployment apps.Deployment
	service    core.Service
	nodes      core.Service // of timeoutd, without an address of its own
	budget     policy.PodDisruptionBudget
}

// read decodes a file. An unknown field, a field given twice and another kind are errors.
func read(t *testing.T, name string) (m manifest) {
	text, err := os.ReadFile(filepath.Join("../../deploy/kubernetes", name+".yaml"))
	require.NoError(t, err)
	kinds := map[string]any{"apps/v1 Deployment": &m.deployment, "v1 Service": &m.service, "policy/v1 PodDisruptionBudget": &m.budget}
	if name == "timeoutd" {
		kinds["v1 Service without an address"] = &m.nodes
	}
	for document := range strings.SplitSeq(string(text), "\n---\n") {
		var is struct {
			meta.TypeMeta `json:",inline"`
			Spec          struct{ ClusterIP string }
		}
		require.NoError(t, yaml.Unmarshal([]byte(document), &is))
		kind := is.APIVersion + " " + is.Kind
		if is.Spec.ClusterIP == core.ClusterIPNone {
			kind += " without an address"
		}
		require.Contains(t, kinds, kind, "unknown, or there twice")
		require.NoError(t, yaml.UnmarshalStrict([]byte(document), kinds[kind]))
		delete(kinds, kind)
	}
	require.Empty(t, kinds)
	return m
}

func (m manifest) container() core.Container { return m.deployment.Spec.Template.Spec.Containers[0] }

// flags returns the arguments by name.
func (m manifest) flags(t *testing.T) map[string]string {
	flags := map[string]string{}
	for _, arg := range m.container().Args {
		name, value, found := strings.Cut(strings.TrimPrefix(arg, "-"), "=")
		require.True(t, found, arg)
		require.NotContains(t, flags, name)
		flags[name] = value
	}
	return flags
}

// duration returns the value of a flag that must be there.
func (m manifest) duration(t *testing.T, flag string) time.Duration {
	d, err := time.ParseDuration(m.flags(t)[flag])
	require.NoError(t, err, flag)
	return d
}

// longest returns how long a program may take after SIGTERM.
func (m manifest) longest(t *testing.T) time.Duration {
	if m.deployment.Name == "timeoutd" {
		const closeGrace = 3 * time.Second // of cmd/timeoutd, for HTTP requests that still run
		return m.duration(t, "drain-delay") + m.duration(t, "grace") + closeGrace
	}
	require.Greater(t, m.duration(t, "shutdown-timeout"), m.duration(t, "drain-delay")+m.duration(t, "drain"))
	return m.duration(t, "shutdown-timeout")
}

func TestThePartsOfAManifestBelongTogether(t *testing.T) {
	for _, name := range programs {
		m := read(t, name)
		template, labels := m.deployment.Spec.Template, m.deployment.Spec.Template.Labels
		require.NotEmpty(t, labels)
		for _, of := range []meta.ObjectMeta{m.deployment.ObjectMeta, m.service.ObjectMeta, m.budget.ObjectMeta} {
			require.Equal(t, name, of.Name)
		}
		require.Equal(t, labels, m.deployment.Spec.Selector.MatchLabels)
		require.Equal(t, labels, m.service.Spec.Selector)
		require.Equal(t, labels, m.budget.Spec.Selector.MatchLabels)
		require.Greater(t, int(*m.deployment.Spec.Replicas), m.budget.Spec.MaxUnavailable.IntValue())
		require.Len(t, template.Spec.Containers, 1)
		require.Contains(t, m.container().Image, "/"+name+":")
		require.Empty(t, m.container().Command, "the image has it")
		for _, port := range m.service.Spec.Ports {
			m.port(t, port.TargetPort.StrVal)
		}
	}
}

// All nodes of timeoutd ask each other for their figures, and a node that is not ready has some, too.
func TestTheNodesOfTimeoutdFindEachOther(t *testing.T) {
	m := read(t, "timeoutd")
	require.Equal(t, m.deployment.Spec.Template.Labels, m.nodes.Spec.Selector)
	require.True(t, m.nodes.Spec.PublishNotReadyAddresses)
	require.Equal(t, "http://"+m.nodes.Name+":"+itoa(m.nodes.Spec.Ports[0].Port), m.flags(t)["peers"])
	require.Equal(t, "addr", m.port(t, m.nodes.Spec.Ports[0].TargetPort.StrVal))
}

// port returns the number of a container's port, and the flag with this number.
func (m manifest) port(t *testing.T, name string) (flag string) {
	for _, port := range m.container().Ports {
		for flag, value := range m.flags(t) {
			if port.Name == name && value == ":"+itoa(port.ContainerPort) {
				return flag
			}
		}
	}
	require.Fail(t, "no flag has the port", name)
	return ""
}

// Whoever is killed in the middle of the drain says no goodbye.
func TestTheGracePeriodHasRoomForPreStopAndTheDrain(t *testing.T) {
	for _, name := range programs {
		m := read(t, name)
		preStop := time.Duration(m.container().Lifecycle.PreStop.Sleep.Seconds) * time.Second
		grace := time.Duration(*m.deployment.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
		require.Positive(t, preStop)
		require.GreaterOrEqual(t, grace, preStop+m.longest(t)+5*time.Second, name) // for the last log lines and closes
		readiness := m.container().ReadinessProbe
		notices := time.Duration(readiness.PeriodSeconds*readiness.FailureThreshold) * time.Second
		require.Greater(t, m.duration(t, "drain-delay"), notices, "the drain begins before anybody notices")
	}
}

func TestAContainerMayDoLittle(t *testing.T) {
	for _, name := range programs {
		m := read(t, name)
		pod, own := m.deployment.Spec.Template.Spec, m.container().SecurityContext
		require.False(t, *pod.AutomountServiceAccountToken)
		require.False(t, *pod.EnableServiceLinks, "its variables begin as those of timeoutd")
		require.True(t, *pod.SecurityContext.RunAsNonRoot)
		require.Equal(t, int64(65532), *pod.SecurityContext.RunAsUser)
		require.Equal(t, int64(65532), *pod.SecurityContext.RunAsGroup)
		require.Equal(t, core.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
		require.False(t, *own.AllowPrivilegeEscalation)
		require.True(t, *own.ReadOnlyRootFilesystem)
		require.Equal(t, []core.Capability{"ALL"}, own.Capabilities.Drop)
		require.Empty(t, own.Capabilities.Add)
	}
}

// docs/performance.md: 694 bytes of the program and 8 KB of the kernel for each connection.
func TestMemoryHasRoomForAllConnections(t *testing.T) {
	m := read(t, "echo-heartbeat")
	const each, program = 694 + 8<<10, 64 << 20
	resources := m.container().Resources
	require.Equal(t, resources.Requests.Memory().Value(), resources.Limits.Memory().Value())
	require.GreaterOrEqual(t, resources.Limits.Memory().Value(), atoi(t, m.flags(t)["max-conns"])*each+program)
}

// docs/kubernetes.md: bodies of four times max-body, ten times as long when decoded, and the payloads in two
// kinds of answers, four times as long.
func TestMemoryHasRoomForTheLargestRequests(t *testing.T) {
	c := read(t, "timeoutd").container()
	const maxBody, answers, program = 8 << 20, 64 << 20, 64 << 20
	at := slices.IndexFunc(c.Env, func(v core.EnvVar) bool { return v.Name == "GOMEMLIMIT" })
	require.GreaterOrEqual(t, at, 0)
	limit := resource.MustParse(strings.TrimSuffix(c.Env[at].Value, "B"))
	require.GreaterOrEqual(t, limit.Value(), int64(10*4*maxBody+2*4*answers+program))
	require.Greater(t, c.Resources.Limits.Memory().Value(), limit.Value())
}
