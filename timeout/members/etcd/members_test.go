package etcd_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/heartwheel-go/heartwheel/internal/testserver"
	"github.com/heartwheel-go/heartwheel/timeout/engine"
	"github.com/heartwheel-go/heartwheel/timeout/enginetest"
	"github.com/heartwheel-go/heartwheel/timeout/members/etcd"
	"github.com/heartwheel-go/heartwheel/timeout/members/internal/memberstest"
)

func TestMain(m *testing.M) { testserver.Main(m) }

const (
	eternal = memberstest.Eternal
	long    = memberstest.Long
	short   = memberstest.Short
)

var heartbeat, names, watch = memberstest.Heartbeat, memberstest.Names, memberstest.Watch

// open returns new Members, as in another process.
func open(t *testing.T, s *testserver.Server) *etcd.Members {
	t.Helper()
	m, err := etcd.Open([]string{s.URL}, etcd.Config{Prefix: "/" + memberstest.Prefix(t) + "/"})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, m.Close()) })
	return m
}

func TestMembersAreAsTheContractSays(t *testing.T) {
	t.Parallel()
	enginetest.Members(t, open(t, testserver.SharedEtcd(t)))
}

func TestTwoProcessesOfOneNameAreTold(t *testing.T) {
	t.Parallel()
	s := testserver.SharedEtcd(t)
	enginetest.Runs(t, open(t, s), open(t, s))
	memberstest.Duplicates(t, open(t, s), open(t, s))
}

func TestAKilledLeaderIsMissedAndTheNextOneLeads(t *testing.T) {
	t.Parallel()
	s := testserver.SharedEtcd(t)
	a, b, c := open(t, s), open(t, s), open(t, s)
	memberstest.KilledLeader(t, a, b, c, func() { require.NoError(t, a.Close()) }) // without a Leave
}

func TestAZombieJoinsAsTheLast(t *testing.T) {
	t.Parallel()
	s := testserver.SharedEtcd(t)
	zombie, heir := open(t, s), open(t, s)
	asleep := heartbeat(t, zombie, "zombie", short)
	require.Equal(t, "zombie", asleep.Leader())
	require.Eventually(t, func() bool { return heartbeat(t, heir, "heir", long).Leader() == "heir" }, eternal, 20*time.Millisecond)

	awake := memberstest.Awake(t, zombie, heir)
	require.Equal(t, []string{"heir", "zombie"}, names(awake))
}

func TestALeaseHasTheLengthOfTheLastHeartbeat(t *testing.T) {
	t.Parallel()
	s := testserver.SharedEtcd(t)
	a, b := open(t, s), open(t, s)
	heartbeat(t, a, "a", long)
	require.Equal(t, []string{"a"}, names(heartbeat(t, a, "a", short)))
	heartbeat(t, b, "b", long)
	require.Eventually(t, func() bool { return len(heartbeat(t, b, "b", long).Nodes) == 1 }, eternal, 20*time.Millisecond)
}

func TestANodeWhoseKeySomebodyRemovesJoinsAgain(t *testing.T) {
	t.Parallel()
	s := testserver.SharedEtcd(t)
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{s.URL}})
	require.NoError(t, err)
	defer client.Close()
	prefix := memberstest.Prefix(t)
	m, err := etcd.New(client, etcd.Config{Prefix: prefix + "/"})
	require.NoError(t, err)
	before := heartbeat(t, m, "a", long)
	for _, key := range []string{"nodes/a", ""} {
		_, err = client.Delete(t.Context(), prefix+"/"+key, clientv3.WithPrefix())
		require.NoError(t, err)
		require.Equal(t, before, heartbeat(t, m, "a", long))
	}
	require.NoError(t, m.Close())
	_, err = client.Get(t.Context(), "key")
	require.NoError(t, err, "the client is its owner's to close")
}

func TestWatchTellsOfEveryChange(t *testing.T) {
	t.Parallel()
	s := testserver.SharedEtcd(t)
	watcher, other := open(t, s), open(t, s)
	changes, end := watch(watcher)
	changes.Await(t, "one at the beginning")
	for _, change := range []func(){
		func() { heartbeat(t, other, "b", long) },
		func() {
			_, err := other.Heartbeat(t.Context(), engine.Node{Name: "b", Topics: []string{"orders"}}, long)
			require.NoError(t, err)
		},
		func() {
			heartbeat(t, other, "b", short)
			changes.Await(t, "a heartbeat without topics")
		}, // then its lease ends
		func() { heartbeat(t, other, "b", long) },
		func() { require.NoError(t, other.Leave(t.Context(), "b")) },
	} {
		changes.Drain(50 * time.Millisecond)
		change()
		changes.Await(t, "")
	}
	require.NoError(t, end())
}

func TestTheLastViewIsUsedWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	for name, outage := range memberstest.Outages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := testserver.Etcd(t)
			other := open(t, s)
			heartbeat(t, other, "other", long)
			center, stop := memberstest.Serve(t, open(t, s))
			defer stop()
			changes, end := watch(other)
			changes.Await(t, "one at the beginning")
			memberstest.Away(t, s, center, other, changes, outage)
			require.NoError(t, end())
		})
	}
}

func TestAHeartbeatEndsWithItsContext(t *testing.T) {
	t.Parallel()
	m, err := etcd.Open([]string{"127.0.0.1:1"}, etcd.Config{})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err = m.Heartbeat(ctx, engine.Node{Name: "a"}, long)
	require.True(t, errors.Is(err, context.Canceled), err)
	memberstest.Closed(t, m)
}

func TestAWatchEndsWithTheClient(t *testing.T) {
	t.Parallel()
	m := open(t, testserver.SharedEtcd(t))
	changes, end := watch(m)
	changes.Await(t, "")
	require.NoError(t, m.Close())
	require.Error(t, end())
}

func TestBadArgumentsAreNamed(t *testing.T) {
	_, err := etcd.Open(nil, etcd.Config{})
	require.ErrorIs(t, err, engine.ErrArgument)
	_, err = etcd.Open([]string{"a:1", " "}, etcd.Config{})
	require.ErrorIs(t, err, engine.ErrArgument)
	require.ErrorContains(t, err, `" "`)
	_, err = etcd.Open([]string{"a:1"}, etcd.Config{Prefix: strings.Repeat("p", 1025)})
	require.ErrorIs(t, err, engine.ErrArgument)
	require.ErrorContains(t, err, "1025")
	_, err = open(t, &testserver.Server{URL: "http://127.0.0.1:1"}).Heartbeat(t.Context(), engine.Node{Name: "a"}, 0)
	require.ErrorIs(t, err, engine.ErrArgument)
}
