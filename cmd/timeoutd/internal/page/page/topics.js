// The view of all topics: tiles, the table, the owners of slots, the nodes.

const COLORS = 8;

function drawTiles(host, tiles) {
  host.replaceChildren(...tiles.map(({ id, what, value, unit, more, warn, bad, title }) => h("li", { id: "tile-" + id, class: "tile" + (bad ? " bad" : warn ? " warn" : ""), title: title || false },
    h("div", { class: "what" }, what),
    h("div", { class: "value" }, value, unit ? h("small", {}, unit) : null),
    h("div", { class: "more" }, more || "\u00a0"))));
}

// drawNotices shows notices. As long as they stay the same, their elements stay, so they are
// read aloud once.
function drawNotices(host, notices) {
  const now = JSON.stringify(notices.map((n) => [n.id, n.bad]));
  if (host.dataset.now !== now) {
    host.dataset.now = now;
    host.replaceChildren(...notices.map((n) => h("p", { class: "notice" + (n.bad ? " bad" : ""), id: "notice-" + n.id }, h("b", {}, n.head), " ", h("span", {}))));
  }
  notices.forEach((n) => setText($("notice-" + n.id).lastChild, n.text));
}

// ownerClass is the colour of a node, by its place, so that few nodes share one.
const ownerClass = (members, owner) => {
  const i = members.nodes.findIndex((n) => n.name === owner);
  return owner === "" ? "nobody" : i < 0 ? "" : "o" + (i % COLORS);
};

// drawMini is a strip of at most as many parts as there is room for.
function drawMini(members, owners) {
  const parts = Math.min(owners.length, 32), strip = h("span", { class: "mini", "aria-hidden": "true" });
  for (let i = 0; i < parts; i++) strip.append(h("i", { class: ownerClass(members, owners[Math.floor((i * owners.length) / parts)]) }));
  return strip;
}

const cell = (text, cls = "") => h("td", { class: ("n " + cls).trim() }, text);

// paused is what the page says of a pause, or nothing.
const paused = (t) => (t.paused ? "paused" + (t.paused_until ? " until " + date(t.paused_until) : "") : "");

// drawTopics keeps its rows, so that the button in focus stays there.
function drawTopics(body, stats, chosen, filter, choose, pause) {
  const shown = stats.topics.filter((t) => t.name.toLowerCase().includes(filter.toLowerCase()));
  const now = JSON.stringify(shown.map((t) => [t.name, paused(t)]));
  if (body.dataset.now !== now || !body.firstChild) {
    body.dataset.now = now;
    body.replaceChildren(...(shown.length ? shown.map((t) => h("tr", { "data-topic": t.name })) : [h("tr", {}, h("td", { class: "empty", colspan: 13 },
      stats.topics.length ? "No topic has that in its name." : "No topics yet. The first task that is set makes one: timeoutd set orders 4711 -after 15m"))]));
    for (const row of body.querySelectorAll("[data-topic]")) {
      const name = row.dataset.topic, t = shown.find((one) => one.name === name);
      row.append(
        h("td", {}, h("button", { type: "button", class: "link name", title: name, onclick: () => choose(name) }, name), t.paused ? h("span", { class: "badge" }, paused(t)) : null),
        h("td", { class: "act" }, plain(t.paused ? "Resume" : "Pause", () => pause(name, !t.paused), { class: "small toggle", "aria-label": (t.paused ? "Resume " : "Pause ") + name })));
    }
  }
  for (const t of shown) {
    const row = body.querySelector(`[data-topic="${CSS.escape(t.name)}"]`), c = t.counts, all = t.all;
    row.classList.toggle("chosen", t.name === chosen);
    const cells = [
      cell(c ? count(c.pending) : "?"),
      cell(c ? count(c.due) : "?", c && c.due ? "" : "faint"),
      cell(c && (c.due || c.lag_seconds) ? time(c.lag_seconds) : "–", c && !t.paused && c.lag_seconds > 5 ? "warn" : "faint"),
      cell(c ? count(c.running) : "?"),
      cell(all ? count(all.done) : "–", all ? "" : "faint"),
      cell(all ? count(all.failed) : "–", all && all.failed ? "" : "faint"),
      cell(c ? count(c.dead) : "?", c && c.dead ? "warn" : "faint"),
      cell(all ? `${count(all.again)}, ${count(all.lost)}` : "–", all && (all.again || all.lost) ? "" : "faint"),
      cell(all ? count(all.early) : "–", all && all.early ? "bad" : "faint"),
      cell(all && all.late.count ? time(all.late.p99_seconds) : "–", "faint"),
      h("td", { title: `${t.owners.length} slots` }, drawMini(stats.members, t.owners), h("span", { class: "faint" }, " " + t.owners.length)),
    ];
    while (row.children.length > 2) row.children[1].remove();
    row.firstChild.after(...cells);
  }
}

// drawOwners shows the owners of a topic's slots.
function drawOwners(list, strip, stats, topic) {
  const has = new Map();
  for (const owner of topic.owners) has.set(owner, (has.get(owner) || 0) + 1);
  list.replaceChildren(...[...has].map(([owner, n]) => h("li", {}, h("span", { class: "dot " + ownerClass(stats.members, owner) }),
    `${owner || "nobody"}: ${plural(n, "slot")}${owner === stats.node ? " (this node)" : ""}`)));
  const now = JSON.stringify([topic.owners, stats.members.nodes.map((n) => n.name)]);
  if (strip.dataset.now === now) return;
  strip.dataset.now = now;
  strip.replaceChildren(...topic.owners.map((owner, i) => h("i", { class: ownerClass(stats.members, owner), title: `slot ${i}: ${owner || "nobody"}` })));
}

function drawNodes(body, note, stats) {
  const m = stats.members, all = stats.topics.reduce((sum, t) => sum + t.owners.length, 0);
  setText(note, m.nodes.length ? `led by ${m.leader}` : "");
  if (!m.nodes.length) {
    body.replaceChildren(h("tr", {}, h("td", { class: "empty", colspan: 4 }, "No node is known of yet.")));
    return;
  }
  body.replaceChildren(...m.nodes.map((node) => {
    const owned = stats.topics.reduce((sum, t) => sum + t.owners.filter((o) => o === node.name).length, 0);
    const bar = h("i");
    bar.style.width = (all ? (owned / all) * 100 : 0).toFixed(1) + "%";
    return h("tr", {},
      h("td", {}, h("span", { class: "dot " + ownerClass(m, node.name) }), node.name,
        node.name === stats.node ? h("span", { class: "faint" }, " this one") : null, node.name === m.leader ? h("span", { class: "badge" }, "leader") : null,
        stats.sums.asked && stats.sums.missing.includes(node.name) ? h("span", { class: "badge" }, "no answer") : null),
      cell(count(owned)),
      h("td", {}, h("div", { class: "meter" }, bar)),
      h("td", { class: "error" }, node.topics === null ? "all" : node.topics.length ? node.topics.map((t) => (t === "*" ? "callbacks of tasks" : t)).join(", ") : "none"));
  }));
}

// drawFacts is a list of names and values, without empty ones.
function drawFacts(list, facts) {
  const now = JSON.stringify(facts);
  if (list.dataset.now === now) return;
  list.dataset.now = now;
  list.replaceChildren(...facts.filter(([, value]) => value !== undefined && value !== null && value !== "")
    .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, String(value)))));
}

const callbackText = (c) => (c ? `${c.kind} ${c.method ? c.method + " " : ""}${c.target}` : "");

const topicFacts = (t) => [
  ["retries", t.retries < 0 ? "none" : t.retries], ["backoff", t.backoff], ["backoff max", t.backoff_max], ["lease", t.lease], ["timeout", t.timeout],
  ["concurrency", t.concurrency], ["priority", t.priority || ""], ["rate", t.rate ? t.rate + "/s" : ""], ["global concurrency", t.global_concurrency || ""], ["global rate", t.global_rate ? t.global_rate + "/s" : ""], ["every", t.every], ["retain", t.retain], ["retain dead", t.retain_dead], ["max dead", t.max_dead < 0 ? "any number" : t.max_dead], ["retain log", t.retain_log], ["callback", callbackText(t.callback)],
];
