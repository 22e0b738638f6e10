package otel

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/heartwheel-go/heartwheel/timeout"
	"github.com/heartwheel-go/heartwheel/timeout/memory"
)

// propagator is what programs usually set with otel.SetTextMapPropagator.
var propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

// set sets a task with the trace of ctx.
func set(ctx context.Context, center *timeout.Center, task timeout.Task) error {
	carrier := propagation.MapCarrier{}
	propagator.Inject(ctx, carrier)
	task.Trace = carrier
	_, err := center.Set(ctx, task)
	return err
}

// traced gives a handler the trace of the task's setter.
func traced(handler timeout.Handler) timeout.Handler {
	return func(ctx context.Context, task timeout.Task) error {
		return handler(propagator.Extract(ctx, propagation.MapCarrier(task.Trace)), task)
	}
}

func TestATraceGoesFromTheSetterToTheHandler(t *testing.T) {
	store, err := memory.New(memory.Config{})
	require.NoError(t, err)
	defer store.Close()
	center, err := timeout.New(store, timeout.Config{})
	require.NoError(t, err)
	defer center.Close()
	type seen struct {
		span trace.SpanContext
		user string
	}
	calls := make(chan seen, 3)
	require.NoError(t, center.Handle("orders", traced(func(ctx context.Context, _ timeout.Task) error {
		calls <- seen{trace.SpanContextFromContext(ctx), baggage.FromContext(ctx).Member("user").Value()}
		return nil
	})))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- center.Run(ctx) }()

	// Without a span there is no trace.
	require.NoError(t, set(ctx, center, timeout.Task{Topic: "orders", ID: "1"}))
	require.False(t, (<-calls).span.IsValid())

	state, err := trace.ParseTraceState("congo=t61rcWkgMzE")
	require.NoError(t, err)
	span := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 2, 3}, SpanID: trace.SpanID{4, 5}, TraceFlags: trace.FlagsSampled, TraceState: state,
	})
	member, err := baggage.NewMember("user", "7")
	require.NoError(t, err)
	bag, err := baggage.New(member)
	require.NoError(t, err)
	there := baggage.ContextWithBaggage(trace.ContextWithSpanContext(ctx, span), bag)
	require.NoError(t, set(there, center, timeout.Task{Topic: "orders", ID: "1", After: time.Millisecond}))
	require.Equal(t, seen{span.WithRemote(true), "7"}, <-calls)

	stop()
	require.NoError(t, <-ended)
}
