package enginetest

import (
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata" // for machines that have no zones

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
)

// Zone is that of Borders. In it, clocks are set forward and back.
const Zone = "America/New_York"

// borders are moments at which a local time is not what comes after the one before.
var borders = []struct{ name, at string }{
	{"year", "2027-01-01T00:00:00-05:00"},
	{"forward", "2027-03-14T03:00:00-04:00"}, // there is no 02:30
	{"back", "2027-11-07T01:00:00-05:00"},    // there are two of 01:30
	{"leap day", "2028-02-29T00:00:00-05:00"},
	{"32 bits", "2038-01-19T03:14:08Z"}, // of seconds
}

// Borders asks for tasks that are due around the borders of minutes, years and daylight saving:
// each is run once, in order and not before its time. open returns an engine whose clock is at
// that time, and what ends it.
func Borders(t *testing.T, open func(at time.Time) (engine timeout.Engine, end func())) {
	zone, err := time.LoadLocation(Zone)
	require.NoError(t, err)
	for _, b := range borders {
		at, err := time.Parse(time.RFC3339, b.at)
		require.NoError(t, err)
		engine, end := open(at.Add(-600 * time.Millisecond))
		around(t, engine, b.name, at.In(zone))
		end()
	}
}

// around sets tasks that are due shortly before a moment and shortly after, and runs
// what is due until all have run.
func around(t *testing.T, engine timeout.Engine, name string, at time.Time) {
	topic := unique("border")
	_, err := engine.SetTopic(t.Context(), timeout.Topic{Name: topic, Slots: 1}, true)
	require.NoError(t, err)
	var wanted []string
	var tasks []timeout.Task
	for i := -20; i <= 20; i++ {
		due := at.Add(time.Duration(i) * 20 * time.Millisecond)
		wanted = append(wanted, due.Format(time.RFC3339Nano))
		tasks = append(tasks, timeout.Task{Topic: topic, ID: wanted[i+20], Due: due})
	}
	rand.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	_, err = engine.Set(t.Context(), tasks)
	require.NoError(t, err)
	var ran []string
	ask := timeout.Ask{Topic: topic, Node: "n", Max: 10, Lease: long}
	for deadline := time.Now().Add(patient); len(ran) < len(wanted) && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		batch, err := engine.Expire(t.Context(), ask)
		require.NoError(t, err)
		ask.Settle = nil
		for _, leased := range batch.Leased {
			require.False(t, batch.Now.Before(leased.Due), "%s is early", leased.ID)
			ran = append(ran, leased.ID)
			ask.Settle = append(ask.Settle, timeout.Outcome{Token: leased.Token, As: timeout.Done})
		}
	}
	require.Equal(t, wanted, ran, name)
	require.NoError(t, engine.DropTopic(t.Context(), topic))
}
