package fleetmetrics

import (
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/fleet"
	"github.com/heartwheel-go/heartwheel/internal/sink"
)

// Each field has a value of its own, and is there once under its name.
func TestEachFigureHasItsName(t *testing.T) {
	var s fleet.Stats
	fields := reflect.ValueOf(&s).Elem()
	want := map[string]float64{}
	for i := range fields.NumField() {
		name := "heartwheel_fleet_" + strings.ToLower(fields.Type().Field(i).Name)
		if f := fields.Field(i); f.CanInt() {
			f.SetInt(int64(i + 1))
		} else {
			f.SetUint(uint64(i + 1))
			name += "_total"
		}
		want[name] = float64(i + 1)
	}
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(sink.Collector(all, func(to sink.Sink) { collect(to, s) }))
	families, err := reg.Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, family := range families {
		m := family.GetMetric()[0]
		got[family.GetName()] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
	}
	require.Equal(t, want, got)
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
}

func TestNewNeedsANode(t *testing.T) {
	require.PanicsWithValue(t, "fleetmetrics: New needs a node", func() { New(nil) })
}
