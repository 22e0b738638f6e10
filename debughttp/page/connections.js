// The connections: what to look for stands in the address of the page, so that it can be kept, sent,
// and asked for as JSON.

(() => {
  const PATIENCE = 20000, TYPING = 350;
  const STATES = { new: "new: no message yet", held: "held: the program is busy", probing: "probing: to answer", leaving: "leaving: its end is decided" };
  const DESCENDING = ["age", "idle", "round_trip", "closed"]; // at first

  let latest = null, failure = "", paused = false, timer = 0, typing = 0, asking = null, interval = 2000;

  const query = () => new URLSearchParams(location.search);
  const isClosed = () => query().get("state") === "closed";

  // link is the address of another view of the same. Null takes a parameter away.
  function link(changes) {
    const q = query();
    for (const name of ["after", "before"]) q.delete(name);
    for (const [name, value] of Object.entries(changes)) {
      if (value) q.set(name, value);
      else q.delete(name);
    }
    return "?" + q;
  }

  // go goes to another view, with what was typed just before.
  function go(changes, instead) {
    if (typing) changes = { ...typed(), ...changes };
    clearTimeout(typing);
    typing = 0;
    history[instead ? "replaceState" : "pushState"](null, "", link(changes));
    show();
  }

  // show makes the page what its address says.
  function show() {
    const q = query(), closed = isClosed();
    $("show-open").setAttribute("aria-pressed", !closed);
    $("show-closed").setAttribute("aria-pressed", closed);
    $("state").closest("label").hidden = closed;
    $("reason").closest("label").hidden = !closed;
    $("state").value = closed ? "" : q.get("state") || "";
    $("reason").value = q.get("reason") || "";
    if ([...$("limit").options].some((o) => o.value === q.get("limit"))) $("limit").value = q.get("limit");
    if (document.activeElement !== $("search")) $("search").value = searched(q);
    const json = query();
    json.set("format", "json");
    $("json").href = "?" + json;
    ask();
  }

  // searched is the text for what is searched, and typed the parameters for the text in the field.
  const searched = (q) => (q.get("id") ? "#" + q.get("id") : q.get("addr") || q.get("label") || "");
  function typed() {
    const found = { id: null, addr: null, label: null }, text = $("search").value.trim();
    if (!text) return found;
    if (/^#?\d+$/.test(text)) found.id = text.replace("#", "");
    else if (/^\d+(\.\d+){0,2}\.$|^\d+(\.\d+){1,2}$/.test(text)) { // the beginning of an address
      const parts = text.replace(/\.$/, "").split("."), bits = parts.length * 8;
      while (parts.length < 4) parts.push("0");
      found.addr = parts.join(".") + "/" + bits;
    } else if (isAddress(text) || text.startsWith("peer-") || !latest?.labels) found.addr = text;
    else found.label = text;
    return found;
  }

  // isAddress reports whether a text is meant to be an address, perhaps with a zone and a port, or a prefix. Many
  // labels have colons or points, too: neither aa:bb:cc:dd:ee:ff nor 1.2.3.4.5 is one.
  const isAddress = (text) => /^\d+(\.\d+){3}([:/]\d+)?$/.test(text) ||
    /^\[?[0-9a-f.:]+(%[^\]/]+)?\]?(:\d+)?(\/\d+)?$/i.test(text) && (/^\[|::/.test(text) || text.split(":").length > 7);

  async function ask() {
    asking?.abort();
    clearTimeout(timer);
    const mine = asking = new AbortController(), begin = performance.now();
    $("rows").setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(address(), { cache: "no-store", signal: AbortSignal.any([mine.signal, AbortSignal.timeout(PATIENCE)]) });
      if (!answer.ok) throw new Error((await answer.text()).slice(0, 300).trim());
      latest = await answer.json();
      failure = "";
    } catch (e) {
      if (mine !== asking) return; // another question has come
      failure = e.name === "TimeoutError" ? "The server takes too long." : e instanceof TypeError ? "The server can't be reached." : e.message;
    }
    if (mine !== asking) return;
    asking = null;
    $("rows").setAttribute("aria-busy", "false");
    try {
      if (!failure) draw();
    } finally {
      notices();
      state();
      plan(Math.max(interval - (performance.now() - begin), 20000 * (latest ? latest.took_seconds : 0)));
    }
  }

  function plan(wait) {
    clearTimeout(timer);
    if (!paused && !document.hidden && !$("ask").open) timer = setTimeout(ask, wait);
  }

  function notices() {
    drawNotices($("notices"), failure ? [{ id: "lost", bad: true, head: "No answer.", text: failure }] : []);
  }

  const state = () => showLive(failure, paused, latest);

  const byCount = (n) => (n < 1000 ? `${n} B` : n < 1e6 ? trim(n / 1e3) + " kB" : n < 1e9 ? trim(n / 1e6) + " MB" : trim(n / 1e9) + " GB");
  const maybe = (v, write) => (v == null ? "–" : write(v));
  const ago = (sec) => (sec < 59.95 ? tenths(sec) : time(Math.round(sec)));

  // Columns: what to sort by or null, the head, the class, and the content of a cell.
  const id = { sort: "id", head: "id", cls: "n faint roomy", cell: (c) => String(c.id) };
  const label = { head: "label", cls: "label roomy", cell: (c) => c.label, title: (c) => c.label };
  const user = { head: "user", cls: "label roomy", cell: (c) => c.key, title: (c) => c.key };
  const peer = { sort: "addr", head: "peer", cls: "addr", cell: (c) => c.addr || "not known", title: (c) => c.addr };
  const age = { sort: "age", head: "age", cls: "n faint roomy", cell: (c) => ago(c.age_seconds) };
  const reason = { head: "reason", cls: "", cell: (c) => [reasonDot(c.reason), words(c.reason)] };
  const open = [
    id, peer, user, label,
    { head: "state", cls: "state roomy", cell: (c) => c.state, special: (c) => c.state !== "open" },
    age,
    { sort: "idle", head: "idle", cls: "n", cell: (c) => ago(c.idle_seconds) },
    { head: "of", cls: "n faint wide-only", cell: (c) => maybe(c.timeout_seconds, time) },
    { head: "share of its timeout", unseen: true, cls: "share wide-only", cell: meter },
    { sort: "left", head: "left", cls: "n", cell: (c) => maybe(c.left_seconds, ago) },
    { head: "then", cls: "roomy", cell: (c) => (c.reason ? [reasonDot(c.reason), words(c.reason)] : "–") },
    { sort: "round_trip", head: "round trip", cls: "n faint roomy", cell: (c) => maybe(c.round_trip_seconds, time), title: (c) => c.round_trip_by && `by the ${c.round_trip_by}` },
    { head: "received", cls: "n faint wide-only", cell: (c) => maybe(c.received_bytes, byCount) },
    { head: "acknowledged", cls: "n faint wide-only", cell: (c) => maybe(c.acknowledged_bytes, byCount) },
    { head: "close", unseen: true, cls: "n", cell: closer },
  ];
  const ended = [
    { sort: "closed", head: "closed", cls: "faint", cell: (c) => clock(new Date(c.closed_at)), title: (c) => c.closed_at },
    id, peer, label, reason, age,
    { sort: "idle", head: "idle at the end", cls: "n", cell: (c) => ago(c.idle_seconds) },
  ];

  function meter(c) {
    const share = Math.min(1, c.timeout_seconds ? c.idle_seconds / c.timeout_seconds : 0), bar = h("i");
    bar.style.width = (share * 100).toFixed(1) + "%";
    return h("div", { class: "meter" + (share > 0.8 ? " near" : "") }, bar);
  }

  function closer(c) {
    return h("button", { type: "button", class: "end", "data-id": c.id, "aria-label": `Close connection ${c.id}`, onclick: () => confirm(c) }, "close");
  }

  // drawReasons fills the select once: the reasons stay the same.
  function drawReasons() {
    if ($("reason").length) return;
    $("reason").append(h("option", { value: "" }, "any reason"), ...latest.reasons.map((value) => h("option", { value }, words(value))));
    $("reason").value = query().get("reason") || "";
  }

  function draw() {
    drawReasons();
    const closed = latest.state === "closed", columns = (closed ? ended : open)
      .filter((c) => (c !== label || latest.labels) && (c !== user || latest.connections.some((r) => r.key)) && (c.cell !== closer || latest.can_close));
    const sortable = (c) => c.sort && !(c.sort === "addr" && latest.addrs_hidden);
    const focus = document.activeElement?.dataset || {}; // on what is about to be drawn anew, perhaps
    $("rows").tHead.replaceChildren(h("tr", {}, ...columns.map((c) => h("th", {
      class: c.cls.replace(/\b(faint|addr|state|label)\b/g, ""), "aria-sort": sortable(c) && latest.sort === c.sort ? latest.order + "ending" : false,
    }, sortable(c) ? sorter(c) : c.unseen ? h("span", { class: "unseen" }, c.head) : c.head))));
    const rows = latest.connections.map((r) => h("tr", { "data-id": r.id, "data-reason": r.reason, "data-state": r.state }, ...columns.map((c) => {
      const content = c.cell(r);
      return h("td", { class: c.cls + (c.special?.(r) ? " special" : ""), title: c.title?.(r) || false }, ...(Array.isArray(content) ? content : [content]));
    })));
    $("rows").tBodies[0].replaceChildren(...(rows.length ? rows : [h("tr", {}, h("td", { class: "empty", colspan: columns.length }, "No such connection."))]));
    if (focus.id) document.querySelector(`#rows button[data-id="${CSS.escape(focus.id)}"]`)?.focus();
    if (focus.sort) document.querySelector(`#rows a[data-sort=${focus.sort}]`)?.focus({ preventScroll: true });
    const from = latest.before + 1, to = latest.before + latest.connections.length;
    setText($("summary"), latest.total ? `${count(from)} to ${count(to)} of ${count(latest.total)}` : "none");
    setText($("show-open").lastChild, count(latest.open));
    setText($("show-closed").lastChild, count(latest.kept));
    $("show-closed").title = latest.ended > latest.kept ? `the last of ${count(latest.ended)}` : "";
    $("first").disabled = $("previous").disabled = !latest.previous;
    $("next").disabled = !latest.next;
    $("search").placeholder = latest.addrs_hidden ? "Search: #7, peer-0123456789" + (latest.labels ? ", label" : "") : "Search: #7, 192.0.2.1, 192.0.2.1:4711, 10.0.0.0/8" + (latest.labels ? ", label" : "");
    setText($("search-help"), `Sorted by ${words(latest.sort)}, ${latest.order === "desc" ? "the greatest first" : "the least first"}. Looked at ${closed ? "the last ends kept" : "all connections"} in ${time(Number(latest.took_seconds.toPrecision(2)))}.`);
    setText($("name"), latest.name);
    setText($("subtitle"), `${plural(latest.open, "connection")} open, ${count(latest.ended)} ended since the page is there`);
    document.title = `${latest.name} · connections · Heartwheel`;
    document.body.dataset.drawn = Number(document.body.dataset.drawn || 0) + 1;
  }

  function sorter(c) {
    const same = latest.sort === c.sort, order = same ? (latest.order === "asc" ? "desc" : "asc") : DESCENDING.includes(c.sort) ? "desc" : "asc";
    const changes = { sort: c.sort, order };
    return h("a", { href: link(changes), "data-sort": c.sort, onclick: (e) => { if (e.ctrlKey || e.metaKey || e.shiftKey) return; e.preventDefault(); go(changes); } }, c.head);
  }

  function confirm(c) {
    $("ask").dataset.id = c.id;
    setText($("ask-title"), `Close connection ${c.id}?`);
    setText($("ask-what"), [c.addr, c.label, `open for ${ago(c.age_seconds)}, idle for ${ago(c.idle_seconds)}`].filter(Boolean).join(" · "));
    setText($("ask-error"), "");
    $("close").disabled = false; // an answer about another one may still be to come
    $("ask").showModal();
    clearTimeout(timer);
    $("token").focus();
  }

  $("ask-form").addEventListener("submit", async (e) => {
    e.preventDefault();
    const { id } = $("ask").dataset, asked = () => $("ask").open && $("ask").dataset.id === id;
    $("close").disabled = true;
    setText($("ask-error"), "");
    try {
      const answer = await fetch(location.href, {
        method: "POST", cache: "no-store", headers: { Authorization: "Bearer " + $("token").value },
        body: new URLSearchParams({ id }), signal: AbortSignal.timeout(PATIENCE),
      });
      if (!answer.ok) throw new Error((await answer.text()).slice(0, 300).trim());
      if (asked()) $("ask").close();
    } catch (problem) {
      if (asked()) setText($("ask-error"), problem.message);
    }
    if (asked()) $("close").disabled = false;
  });
  $("keep").addEventListener("click", () => $("ask").close());
  $("ask").addEventListener("close", () => ask());

  function pause(on) {
    paused = on;
    $("pause").setAttribute("aria-pressed", on);
    setText($("pause"), on ? "Go on" : "Pause");
    state();
    plan(0);
  }

  $("tools").addEventListener("submit", (e) => { e.preventDefault(); go(typed()); });
  $("search").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => go({}, true), TYPING);
  });
  $("show-open").addEventListener("click", () => go({ state: null, reason: null, sort: null, order: null }));
  $("show-closed").addEventListener("click", () => go({ state: "closed", sort: null, order: null }));
  $("state").addEventListener("change", (e) => go({ state: e.target.value }));
  $("reason").addEventListener("change", (e) => go({ reason: e.target.value }));
  $("limit").addEventListener("change", (e) => go({ limit: e.target.value }));
  $("first").addEventListener("click", () => go({}));
  $("previous").addEventListener("click", () => go({ before: latest.previous }));
  $("next").addEventListener("click", () => go({ after: latest.next }));
  addEventListener("popstate", () => {
    clearTimeout(typing);
    typing = 0;
    $("search").value = searched(query());
    show();
  });
  $("pause").addEventListener("click", () => pause(!paused));
  document.addEventListener("keydown", (e) => {
    if (e.ctrlKey || e.metaKey || e.altKey || ["SELECT", "INPUT"].includes(e.target.tagName)) return;
    if (e.key === "p") pause(!paused);
    else if (e.key === "/") { e.preventDefault(); $("search").focus(); }
  });
  document.addEventListener("visibilitychange", () => plan(0));
  $("interval").addEventListener("change", (e) => { interval = Number(e.target.value); plan(0); });
  keepTheme();
  $("state").append(h("option", { value: "" }, "any state"), ...Object.entries(STATES).map(([value, text]) => h("option", { value }, text)));
  show();
})();
