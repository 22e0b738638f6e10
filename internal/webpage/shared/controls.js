// What most pages have in their header. A page without them does not call these functions.

// keepTheme has the select choose the colours, and remembers the choice.
function keepTheme() {
  function dress(theme) {
    if (theme) document.documentElement.dataset.theme = theme;
    else delete document.documentElement.dataset.theme;
  }
  $("theme").addEventListener("change", (e) => { dress(e.target.value); stored.set("theme", e.target.value); });
  const was = stored.get("theme");
  if (["light", "dark"].includes(was)) { $("theme").value = was; dress(was); }
}

// showLive says whether the figures are live. failure is why there are none, or "".
function showLive(failure, paused, latest, pausedWord = "paused") {
  const live = $("live");
  live.className = "live" + (failure ? " lost" : paused ? " paused" : "");
  setText(live, failure ? "lost" : paused ? pausedWord : latest ? "live" : "connecting");
}
