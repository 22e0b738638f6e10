package timeout_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/timeout"
)

func TestAPayloadOfJSONIsReadForItsHandler(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		r := newRig(t, timeout.Config{})
		type mail struct{ To string }
		var seen record
		require.NoError(t, timeout.HandleJSON(r.Center, "orders", func(_ context.Context, task timeout.Task, m mail) error {
			seen.add(task.ID + " " + m.To)
			return nil
		}))
		for id, payload := range map[string]string{"good": `{"To":"ann"}`, "kind": `{"To":7}`, "none": "", "cut": `{"To":"a`} {
			_, err := r.Set(t.Context(), timeout.Task{Topic: "orders", ID: id, Payload: []byte(payload)})
			require.NoError(t, err)
		}
		pass(time.Minute)
		require.Equal(t, []string{"good ann"}, seen.ids)
		for _, id := range []string{"kind", "none", "cut"} {
			require.Equal(t, timeout.Dead, r.state(id).State, id)
			require.Contains(t, r.state(id).Error, "payload of orders/"+id+" is no JSON for a timeout_test.mail")
		}
		require.ErrorIs(t, timeout.HandleJSON(r.Center, "", func(context.Context, timeout.Task, mail) error { return nil }), timeout.ErrArgument)
	})
}

func (r *record) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids = nil
}

// note is a middleware that notes when an attempt begins and ends.
func (r *record) note(name string) func(timeout.Handler) timeout.Handler {
	return func(next timeout.Handler) timeout.Handler {
		return func(ctx context.Context, task timeout.Task) error {
			r.add(name + " before " + task.ID)
			err := next(ctx, task)
			r.add(fmt.Sprintf("%s after %s: %v", name, task.ID, err))
			return err
		}
	}
}

func TestMiddlewareIsAroundEachAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		var seen record
		r := newRig(t, timeout.Config{
			Topic:      timeout.Topic{Retries: 1},
			Callers:    map[string]timeout.Caller{"fake": &targets{calls: map[string]int{}}},
			Middleware: []func(timeout.Handler) timeout.Handler{seen.note("outer"), seen.note("inner")},
		})
		failing := errors.New("no")
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error { seen.add("handler"); return failing }))
		r.set("1", 0)
		pass(time.Minute)
		once := []string{"outer before 1", "inner before 1", "handler", "inner after 1: no", "outer after 1: no"}
		require.Equal(t, append(once, once...), seen.ids, "each of two attempts")
		require.Equal(t, timeout.Dead, r.state("1").State)

		seen.forget()
		r.call("2", "well")
		pass(time.Minute)
		require.Equal(t, []string{"outer before 2", "inner before 2", "inner after 2: <nil>", "outer after 2: <nil>"}, seen.ids)
	})
}

func TestTheErrorOfMiddlewareIsThatOfTheAttempt(t *testing.T) {
	inBubble(t, func(t *testing.T) {
		forgiving := func(next timeout.Handler) timeout.Handler {
			return func(ctx context.Context, task timeout.Task) error {
				err := next(ctx, task)
				switch task.ID {
				case "forgiven":
					return nil
				case "panics":
					panic("oh")
				default:
					return timeout.Permanent(err)
				}
			}
		}
		r := newRig(t, timeout.Config{Topic: timeout.Topic{Retries: -1, Retain: time.Hour}, Middleware: []func(timeout.Handler) timeout.Handler{forgiving}})
		require.NoError(t, r.Handle("orders", func(context.Context, timeout.Task) error { return errors.New("no") }))
		for _, id := range []string{"forgiven", "panics", "final"} {
			r.set(id, 0)
		}
		pass(time.Second)
		require.Equal(t, timeout.Done, r.state("forgiven").State)
		require.Equal(t, timeout.Dead, r.state("final").State)
		require.Contains(t, r.state("panics").Error, "panicked: oh")
		require.NoError(t, r.Handle("orders", nil))
	})
	require.ErrorContains(t, timeout.Config{Middleware: make([]func(timeout.Handler) timeout.Handler, 1)}.Validate(), "Middleware[0] nil, must be a function")
}
