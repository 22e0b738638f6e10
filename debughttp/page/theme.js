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
