// Why the tasks of a topic are dead, by error and target.

// makeCauses shows the groups. clear replays or drops one of them.
function makeCauses(clear, showTask) {
  const host = $("causes"), body = host.querySelector("tbody");
  let number = 0;

  // draw asks for all pages, and shows what it has after each.
  async function draw(topic) {
    const mine = ++number, groups = new Map();
    let cursor = "", other = 0;
    try {
      do {
        const page = await askJSON("GET", `${topicPath(topic)}/dead/causes?${new URLSearchParams({ cursor })}`);
        if (mine !== number) return; // another topic, or state
        for (const group of page.causes) merge(groups, group);
        other += page.other;
        cursor = page.next || "";
        fillIn(topic, [...groups.values()].sort((a, b) => b.tasks - a.tasks));
        setText($("causes-note"), cursor ? "There are more: counting." : other ? `${plural(other, "task")} more, of more causes than an answer has.` : "");
        host.hidden = groups.size === 0;
      } while (cursor);
    } catch (e) {
      if (mine === number) { setText($("causes-note"), e.message); host.hidden = false; }
    }
  }

  function merge(groups, group) {
    const before = groups.get(group.cause);
    if (before) group = { ...(before.newest > group.newest ? before : group), tasks: before.tasks + group.tasks };
    groups.set(group.cause, group);
  }

  const fillIn = (topic, groups) => body.replaceChildren(...groups.map((g) => h("tr", { "data-cause": g.cause },
    h("td", { class: "error", title: g.example.error }, g.error || "(no error)"),
    h("td", { class: "error", title: g.target || false }, g.target || "handler"),
    h("td", { class: "n" }, count(g.tasks)),
    h("td", { title: date(g.newest) }, distance(g.newest)),
    h("td", { class: "id wide-only", title: g.example.id }, h("button", { type: "button", class: "link", onclick: () => showTask({ topic, id: g.example.id }) }, g.example.id)),
    h("td", { class: "act" }, plain("Replay", () => clear("replay", g.cause)), armed("Drop", "Really drop these?", () => clear("drop", g.cause))))));

  function hide() {
    number++;
    host.hidden = true;
    body.replaceChildren();
  }

  return { draw, hide };
}
