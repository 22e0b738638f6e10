//go:build browser

package browsertest

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/heartwheel-go/heartwheel/cmd/timeoutd/internal/api"
	"github.com/heartwheel-go/heartwheel/internal/browsertest/tab"
	"github.com/heartwheel-go/heartwheel/timeout"
)

// hold keeps the page's requests back if a condition about their path and options is true. Each of them
// is in held until free lets it go.
func hold(b *tab.Tab, condition string) {
	tab.Eval[bool](b, `(() => {
		const real = window.real ||= window.fetch;
		window.held = [];
		window.answered = 0;
		window.fetch = async (path, o) => {
			if (!(`+condition+`)) return real(path, o);
			await new Promise((go) => held.push({ path, go }));
			const answer = await real(path, o);
			setTimeout(() => answered++, 100); // the page has read it by then
			return answer;
		};
		return true;
	})()`)
}

func free(b *tab.Tab, which int) {
	answered := tab.Eval[int](b, `answered`)
	tab.Eval[bool](b, fmt.Sprintf(`(held[%d].go(), true)`, which))
	b.Until(fmt.Sprintf(`answered > %d`, answered))
}

// later sets a task that is due in an hour.
func later(t *testing.T, centre *timeout.Center, topic, id string) {
	_, err := centre.Set(t.Context(), timeout.Task{Topic: topic, ID: id, After: time.Hour})
	require.NoError(t, err)
}

// The page's own anchor is no topic, whatever topics are called.
func TestATopicCanBeCalledMain(t *testing.T) {
	centre, url := serve(t, api.Config{})
	later(t, centre, "main", "1")
	b := tab.Open(t, url+"/", 1440, 1000)
	b.Press("#topics", "main")
	b.Until(`!$("topic-card").hidden && $("topic-title").textContent === "main" && document.querySelector("#tasks [data-id]")`)
	tab.Eval[bool](b, `(document.querySelector(".skip").click(), true)`)
	drawn := tab.Eval[string](b, `document.body.dataset.drawn`)
	b.Until(`document.body.dataset.drawn !== "` + drawn + `"`)
	require.True(t, tab.Eval[bool](b, `!$("topic-card").hidden && document.querySelector(":target") === document.querySelector("main")`))
}

// A list that takes longer than the pause between two lists is waited for.
func TestASlowListIsDrawn(t *testing.T) {
	centre, url := serve(t, api.Config{})
	later(t, centre, "mail", "1")
	b := tab.Open(t, url+"/", 1440, 1000)
	b.Until(`document.body.dataset.drawn >= 1`)
	hold(b, `path.includes("/tasks?")`)
	tab.Eval[bool](b, `(window.ticks = 0, setInterval(() => ticks++, 3000), true)`)
	b.Press("#topics", "mail")
	b.Until(`ticks >= 2`)
	require.Equal(t, 1, tab.Eval[int](b, `held.length`))
	free(b, 0)
	b.Until(`document.querySelector("#tasks [data-id]")`)
}
