package enginetest

import (
	"math/rand/v2"
	"testing"
	"time"
	_ "time/tzdata" // for machines without zones

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout/engine"
)

// Zone is the time zone of Borders. In it, clocks are set forward and back.
const Zone = "America/New_York"

// borders are moments with a jump in the local time.
var borders = []struct{ name, at string }{
	{"year", "2027-01-01T00:00:00-05:00"},
	{"forward", "2027-03-14T03:00:00-04:00"}, // there is no 02:30
	{"back", "2027-11-07T01:00:00-05:00"},    // there are two of 01:30
	{"leap day", "2028-02-29T00:00:00-05:00"},
	{"32 bits", "2038-01-19T03:14:08Z"}, // of seconds
}

// Borders sets tasks around the borders of minutes, years and daylight saving. Each must run
// once, in order and not before its time. open returns an engine whose clock is at that time,
// and a function that closes it.
func Borders(t *testing.T, open func(at time.Time) (e engine.Engine, end func())) {
	zone, err := time.LoadLocation(Zone)
	require.NoError(t, err)
	for _, b := range borders {
		at, err := time.Parse(time.RFC3339, b.at)
		require.NoError(t, err)
		e, end := open(at.Add(-600 * time.Millisecond))
		around(t, e, b.name, at.In(zone))
		end()
	}
}

// around sets tasks shortly before and shortly after a moment, and runs due tasks until all
// have run.
func around(t *testing.T, e engine.Engine, name string, at time.Time) {
	topic := unique("border")
	_, err := e.SetTopic(t.Context(), engine.Topic{Name: topic, Slots: 1}, true)
	require.NoError(t, err)
	var wanted []string
	var tasks []engine.Task
	for i := -20; i <= 20; i++ {
		due := at.Add(time.Duration(i) * 20 * time.Millisecond)
		wanted = append(wanted, due.Format(time.RFC3339Nano))
		tasks = append(tasks, engine.Task{Topic: topic, ID: wanted[i+20], Due: due})
	}
	rand.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
	_, err = e.Set(t.Context(), tasks)
	require.NoError(t, err)
	var ran []string
	ask := engine.Ask{Topic: topic, Node: "n", Max: 10, Lease: long}
	for deadline := time.Now().Add(patient); len(ran) < len(wanted) && time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		batch, err := e.Lease(t.Context(), ask)
		require.NoError(t, err)
		ask.Settle = nil
		for _, leased := range batch.Leased {
			require.False(t, batch.Now.Before(leased.Due), "%s is early", leased.ID)
			ran = append(ran, leased.ID)
			ask.Settle = append(ask.Settle, engine.Outcome{Token: leased.Token, As: engine.Done})
		}
	}
	require.Equal(t, wanted, ran, name)
	require.NoError(t, e.DropTopic(t.Context(), topic))
}
