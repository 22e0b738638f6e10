// What is said in rows: tiles, notices, the two tables, and the config.

const reasonDot = (name) => h("span", { class: "dot r-" + name });
const addrCell = (addr) => h("td", { class: addr ? "addr" : "addr faint", title: addr || false }, addr || "not known");

function drawTiles(host, tiles) {
  host.replaceChildren(...tiles.map(({ what, value, unit, more, warn, title }) => h("li", { class: "tile" + (warn ? " warn" : ""), title: title || false },
    h("div", { class: "what" }, what),
    h("div", { class: "value" }, value, unit ? h("small", {}, unit) : null),
    h("div", { class: "more" }, more || "\u00a0"))));
}

// drawNotices shows what somebody should know. Those that stay the same are left
// alone, so that they are read aloud once.
function drawNotices(host, notices) {
  const now = JSON.stringify(notices.map((n) => [n.id, n.bad]));
  if (host.dataset.now !== now) {
    host.dataset.now = now;
    host.replaceChildren(...notices.map((n) => h("p", { class: "notice" + (n.bad ? " bad" : ""), id: "notice-" + n.id }, h("b", {}, n.head), " ", h("span", {}))));
  }
  notices.forEach((n) => setText($("notice-" + n.id).lastChild, n.text));
}

function drawIdlest(body, idlest) {
  if (!idlest.length) {
    body.replaceChildren(h("tr", {}, h("td", { class: "empty", colspan: 8 }, "No connections that wait for their deadline.")));
    return;
  }
  body.replaceChildren(...idlest.map((c) => {
    const share = Math.min(1, c.timeout_seconds ? c.idle_seconds / c.timeout_seconds : 0);
    const fillBar = h("i");
    fillBar.style.width = (share * 100).toFixed(1) + "%";
    const then = c.ends ? h("td", {}, reasonDot(c.ends), words(c.ends)) : h("td");
    if (c.held) then.append(h("span", { class: "held", title: "the program is busy with it: its silence does not count" }, "held"));
    return h("tr", {}, addrCell(c.addr),
      h("td", { class: "n" }, tenths(c.idle_seconds)),
      h("td", { class: "n faint" }, time(c.timeout_seconds)),
      h("td", {}, h("div", { class: "meter" + (share > 0.8 ? " near" : "") }, fillBar)),
      h("td", { class: "n" }, c.left_seconds === null && c.held ? "–" : tenths(c.left_seconds)),
      then,
      h("td", { class: "n faint" }, time(Math.round(c.age_seconds))),
      h("td", { class: "n faint" }, c.round_trip_seconds ? time(c.round_trip_seconds) : "–"));
  }));
}

// drawRecent shows the last ends for the reasons in wanted, or all where that is empty.
// Those after `seen` are new, which is worth saying while they are few.
function drawRecent(body, note, snapshot, wanted, seen) {
  const all = snapshot.recent, some = wanted.size ? all.filter((e) => wanted.has(e.reason)) : all;
  const few = seen !== null && snapshot.ended - seen <= 8;
  setText(note, wanted.size ? `${[...wanted].map(words).join(", ")}: ${some.length} of the last ${all.length}` : all.length < snapshot.ended ? `the last ${all.length} of ${count(snapshot.ended)}` : "");
  if (!some.length) {
    body.replaceChildren(h("tr", {}, h("td", { class: "empty", colspan: 4 }, all.length ? "None of the last ones for such a reason." : "Nobody so far.")));
    return;
  }
  body.replaceChildren(...some.map((e) => h("tr", { class: few && e.number > seen ? "new" : false, "data-reason": e.reason },
    h("td", { class: "faint" }, clock(new Date(e.at))),
    addrCell(e.addr),
    h("td", { title: snapshot.texts[e.reason] || false }, reasonDot(e.reason), words(e.reason)),
    h("td", { class: "n faint" }, tenths(e.age_seconds)))));
}

// drawLegend has a button for each reason for which there was an end. It keeps its
// buttons, so that the one in focus stays there.
function drawLegend(host, snapshot, wanted, toggle) {
  const closed = snapshot.connections.closed, names = snapshot.reasons.filter((r) => closed[r.name] > 0 || wanted.has(r.name));
  const now = names.map((r) => r.name).join();
  if (host.dataset.now !== now || !host.firstChild) {
    host.dataset.now = now;
    host.replaceChildren(...(names.length ? names.map((r) => h("button", {
      type: "button", class: "r-" + r.name, "data-reason": r.name, title: r.text + (r.retryable ? "; a client should come back" : ""), onclick: () => toggle(r.name),
    }, h("span", { class: "dot" }), words(r.name), h("b"))) : [h("span", { class: "none" }, "No connection has ended yet.")]));
  }
  for (const b of host.querySelectorAll("button")) {
    setText(b.lastChild, short(closed[b.dataset.reason]));
    b.setAttribute("aria-pressed", wanted.has(b.dataset.reason));
  }
}

function drawSettings(list, off, settings) {
  const now = JSON.stringify(settings);
  if (list.dataset.now === now) return;
  list.dataset.now = now;
  list.replaceChildren();
  const without = [];
  for (const [name, value] of Object.entries(settings)) {
    const isTime = name.endsWith("_seconds"), label = words(name.replace(/_seconds$/, "").replace(/_bytes_per_second$/, ""));
    if (!value) without.push(label);
    else list.append(h("div", {}, h("dt", {}, label), h("dd", {},
      isTime ? time(value) : value === true ? "on" : name.endsWith("_bytes_per_second") ? count(value) + " bytes/s" : typeof value === "number" ? count(value) : words(value))));
  }
  setText(off, without.length ? "Off: " + without.join(", ") + "." : "");
}
