package timeoutmetrics

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/internal/sink"
	"github.com/heartwheel-go/heartwheel/internal/testmain"
	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

func TestMain(m *testing.M) { testmain.Run(m) }

// gather returns the values of all metrics but histograms, by name and labels but the topic.
func gather(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	families, err := reg.Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), "heartwheel_timeout_")
			for _, label := range m.GetLabel() {
				if label.GetName() != "topic" {
					name += "," + label.GetValue()
				}
			}
			if m.GetHistogram() == nil {
				got[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
	return got
}

// Each number of the figures has a value of its own, so none can take the place of another.
func TestEachFigureOfANodeIsThereOnce(t *testing.T) {
	s := timeout.Stats{Topic: "t", Slots: make([]int, 100)}
	fields, want := reflect.ValueOf(&s).Elem(), map[float64]bool{100: true}
	for i := range fields.NumField() {
		switch f := fields.Field(i); {
		case f.CanInt():
			f.SetInt(int64(i + 1))
		case f.CanUint():
			f.SetUint(uint64(i + 1))
		default:
			continue
		}
		want[float64(i+1)] = true
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(sink.Collector(ofNode, func(to sink.Sink) { collectTopic(to, s) }))
	got := gather(t, reg)
	require.Len(t, got, len(want))
	for name, value := range got {
		require.True(t, want[value], name)
		delete(want, value)
	}
	require.EqualValues(t, s.Done, got["done_total"])
	require.EqualValues(t, s.Rescued, got["rescued_total"])
	require.EqualValues(t, s.Pulled, got["pulled_total"])
	require.EqualValues(t, s.Purged, got["purged_dead_total"])
}

// A center with a topic shows both its own figures and the engine's.
func TestACenterIsScraped(t *testing.T) {
	engine, err := memory.New(memory.Config{})
	require.NoError(t, err)
	defer engine.Close()
	center, err := timeout.New(engine, timeout.Config{})
	require.NoError(t, err)
	defer center.Close()
	ran := make(chan struct{})
	require.NoError(t, center.Handle("t", func(context.Context, timeout.Task) error { close(ran); return nil }))
	for id, after := range map[string]time.Duration{"now": 0, "later": time.Hour} {
		_, err = center.Set(t.Context(), timeout.Task{Topic: "t", ID: id, After: after})
		require.NoError(t, err)
	}
	reg := prometheus.NewPedanticRegistry()
	figures := New(center)
	reg.MustRegister(figures, NewTopics(center, time.Minute))
	require.ErrorAs(t, reg.Register(New(center)), new(prometheus.AlreadyRegisteredError))

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- center.Run(ctx) }()
	<-ran
	require.Eventually(t, func() bool { return gather(t, reg)["done_total"] == 1 }, time.Minute, 10*time.Millisecond)
	got := gather(t, reg)
	for name, want := range map[string]float64{
		"tasks,pending": 1, "due_tasks": 0, "lag_seconds": 0, "slots": 8, "owned_slots": 8, "engine_up": 1, "nodes": 1,
		"leader": 1, "open_circuits": 0, "early_total": 0, "paused": 0, "unserved": 0,
	} {
		value, there := got[name]
		require.True(t, there, name)
		require.Equal(t, want, value, name)
	}
	stop()
	require.NoError(t, <-ended)
	require.True(t, reg.Unregister(figures))
	_, there := gather(t, reg)["done_total"]
	require.False(t, there)
}

func TestATopicThatNoNodeRunsIsTold(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(sink.Collector(ofNode, func(to sink.Sink) {
		collectUnserved(to, []timeout.Stats{{Topic: "served"}, {Topic: "stranded"}}, []string{"stranded", "unknown here"})
	}))
	families, err := reg.Gather()
	require.NoError(t, err)
	require.Len(t, families, 1)
	got := map[string]float64{}
	for _, m := range families[0].GetMetric() {
		got[m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue()
	}
	require.Equal(t, map[string]float64{"served": 0, "stranded": 1, "unknown here": 1}, got)
}

// silent has a topic and never counts it.
type silent struct{ err error }

func (s silent) Topics(context.Context) ([]timeout.Topic, error) {
	return []timeout.Topic{{Name: "t"}}, s.err
}

func (silent) Count(ctx context.Context, _ string) (timeout.Counts, error) {
	<-ctx.Done()
	return timeout.Counts{}, ctx.Err()
}

func TestAnEngineThatDoesNotAnswerIsDown(t *testing.T) {
	for of, want := range map[silent]map[string]float64{
		{}:                   {"engine_up": 0, "paused": 0, "slots": 8},
		{errors.New("away")}: {"engine_up": 0},
	} {
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(NewTopics(of, 10*time.Millisecond))
		require.Equal(t, want, gather(t, reg))
	}
}

func TestWhatCanNotBeScrapedIsRefused(t *testing.T) {
	require.PanicsWithValue(t, "timeoutmetrics: New needs a center", func() { New(nil) })
	require.PanicsWithValue(t, "timeoutmetrics: NewTopics needs a Counter", func() { NewTopics(nil, time.Second) })
	require.PanicsWithValue(t, "timeoutmetrics: wait 0s, must be positive", func() { NewTopics(silent{}, 0) })
}
