// The page: it asks for the state every second, and draws all of it anew.

const nodeClass = (name) => { const m = /^node-([1-4])$/.exec(name); return m ? "c-" + m[1] : ""; };

function tile(what, value, more, cls = "") {
  return h("li", { class: "tile " + cls }, h("div", { class: "what" }, what), h("div", { class: "value" }, value), h("div", { class: "more" }, more));
}

function drawTiles(s) {
  const v = s.verdict;
  $("tiles").replaceChildren(
    tile("online", count(s.online), `of ${plural(v.sessions, "session")}`),
    tile("nodes up", count(s.nodes.filter((n) => n.state === "up").length), `of ${count(s.nodes.length)}`),
    tile("renewals", count(s.nodes.reduce((sum, n) => sum + n.renewals, 0)), "whatever the heartbeats"),
    tile("offlines seen", count(v.seen), `of ${count(v.expected)} that have to come`),
    tile("offlines wrong", count(v.wrong), "of who is there", v.wrong ? "bad" : "good"),
  );
}

function drawNodes(nodes) {
  $("nodes").tBodies[0].replaceChildren(...nodes.map((n) =>
    h("tr", { class: n.state === "up" || n.state === "draining" ? "" : "gone", "data-node": n.name },
      h("td", {}, h("span", { class: "dot " + nodeClass(n.name) }), n.name), h("td", {}, n.addr),
      h("td", { class: "state-" + n.state }, n.state), h("td", { class: "n" }, count(n.sessions)),
      h("td", { class: "n" }, count(n.renewals)), h("td", { class: "n" }, count(n.told)))));
}

function drawSessions(s) {
  const all = s.sessions ?? [];
  $("sessions").replaceChildren(...all.map((one) =>
    h("i", { class: nodeClass(one.node) + (one.detached ? " detached" : ""), title: one.id + (one.node ? " at " + one.node : " is offline") + (one.detached ? ", waits to be resumed" : "") })));
  const entry = (cls, label, n) => h("span", {}, h("span", { class: "dot " + cls }), `${label} ${count(n)}`);
  $("legend").replaceChildren(...s.nodes.map((n) => entry(nodeClass(n.name), n.name, n.sessions)),
    entry("nobody", "offline", all.length - s.online));
}

function drawStory(lines) {
  const list = $("story");
  if (list.childElementCount === lines.length) return;
  const verdict = (line) => (line.includes("verdict pass") ? "pass" : line.includes("verdict fail") ? "fail" : "");
  list.replaceChildren(...lines.map((line) => h("li", { class: verdict(line) }, line)));
  list.scrollTop = list.scrollHeight;
}

function drawEvents(events) {
  $("events").tBodies[0].replaceChildren(...(events ?? []).map((e) =>
    h("tr", {}, h("td", {}, clock(new Date(e.at))), h("td", { class: "e-" + e.event }, e.event), h("td", {}, e.session),
      h("td", {}, e.node ?? ""), h("td", {}, e.kind ?? e.reason ?? ""), h("td", { class: "n faint" }, e.epoch))));
}

async function ask(path) {
  const answer = await fetch(path, { cache: "no-store" });
  const body = await answer.json();
  if (!answer.ok) throw Object.assign(new Error(body.error), { status: answer.status });
  return body;
}

async function drawPresence() {
  const id = $("session").value;
  if (!id) return setText($("presence"), "");
  try {
    const p = await ask("presence/" + encodeURIComponent(id));
    const text = `at ${p.node} since ${clock(new Date(p.since))}, epoch ${p.epoch}` + (p.detached ? ", waits to be resumed" : "");
    if (id === $("session").value) setText($("presence"), text);
  } catch (e) {
    if (id === $("session").value) setText($("presence"), e.status === 404 ? "nowhere: it is offline" : e.message);
  }
}

async function draw() {
  const live = $("live");
  try {
    const s = await ask("state");
    drawTiles(s);
    drawNodes(s.nodes ?? []);
    drawSessions(s);
    drawStory(s.story ?? []);
    drawEvents(s.events);
    await drawPresence();
    setText(live, "live");
    live.classList.remove("lost");
    document.body.dataset.drawn = Number(document.body.dataset.drawn ?? 0) + 1;
  } catch (e) {
    setText(live, "the demo does not answer");
    live.classList.add("lost");
  }
  setTimeout(draw, 1000);
}

$("session").addEventListener("input", drawPresence);
$("ask").addEventListener("submit", (e) => { e.preventDefault(); drawPresence(); });
draw();
