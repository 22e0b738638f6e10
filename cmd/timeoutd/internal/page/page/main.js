// Requests for the figures, and the memory between two answers.

(() => {
  const LONGEST = 300;

  const done = makeChart($("chart-done"), {
    title: "Attempts per second", unit: "/s",
    series: () => [
      { key: "done", label: "done", cls: "c-done", value: (p) => p.done },
      { key: "failed", label: "failed", cls: "c-failed", dashed: true, value: (p) => p.failed },
    ],
  });
  const pending = makeChart($("chart-pending"), {
    title: "Tasks that wait", soft: true, format: count,
    series: () => [{ key: "pending", label: "pending", cls: "c-pending", value: (p) => p.pending }, { key: "due", label: "due", cls: "c-due", value: (p) => p.due }],
  });
  const lag = makeChart($("chart-lag"), { title: "Lag", format: time, series: () => [{ key: "lag", label: "lag", cls: "c-lag", value: (p) => p.lag }] });
  const late = makeHistogram($("late"), { title: "Late: from the action time to the call", empty: "nothing was due yet", least: 9 });
  const took = makeHistogram($("took"), { title: "A call", empty: "none yet", least: 9 });
  const tasks = makeTasks(() => plan(0));

  let latest = null, points = [], frozen = false, timer = 0, asking = false, again = false, missed = false, failure = "", refused = "", interval = 1000, chosen = "";

  const sum = (value) => latest.topics.reduce((n, t) => n + (value(t) || 0), 0);
  const ofCounts = (name) => sum((t) => t.counts && t.counts[name]);
  const ofAll = (name) => sum((t) => t.all && t.all[name]);

  function take(stats) {
    const before = latest;
    latest = stats;
    if (!before || before.sums.at !== stats.sums.at) point(stats, before);
    draw();
  }

  // point makes a point of what happened between two answers.
  function point(stats, before) {
    const at = Date.parse(stats.sums.at) / 1000;
    if (before && (before.since !== stats.since || Date.parse(before.sums.at) / 1000 > at)) points = []; // another process, or a clock set back
    const last = points[points.length - 1], total = { done: ofAll("done"), failed: ofAll("failed") };
    const same = before && JSON.stringify(before.sums.nodes) === JSON.stringify(stats.sums.nodes); // sums of other nodes have no difference
    const gap = missed && points.length > 0, known = points.length > 0 && !gap && same && !before.error && !stats.error;
    missed = false;
    if (gap) points.push({ ...last, t: at - 0.001, gap: true });
    const per = (name) => (known ? Math.max(0, total[name] - last.total[name]) / Math.max(0.001, at - last.t) : 0);
    points.push({ t: at, wall: new Date(stats.sums.at), total, done: per("done"), failed: per("failed"), pending: ofCounts("pending"), due: ofCounts("due"), lag: Math.max(0, ...stats.topics.map((t) => (t.counts ? t.counts.lag_seconds : 0))) });
    while (points.length > 2 && points[1].t < at - LONGEST - 5) points.shift();
  }

  // merge adds up histograms. Their buckets have the same limits.
  function merge(name) {
    const all = { count: 0, max_seconds: 0, p50_seconds: 0, p99_seconds: 0, buckets: [] };
    for (const topic of latest.topics) {
      if (!topic.all) continue;
      const one = topic.all[name];
      all.count += one.count;
      all.max_seconds = Math.max(all.max_seconds, one.max_seconds);
      one.buckets.forEach((b, i) => { all.buckets[i] ||= { le_seconds: b.le_seconds, count: 0 }; all.buckets[i].count += b.count; });
    }
    for (const [key, share] of [["p50_seconds", 0.5], ["p99_seconds", 0.99]]) {
      let seen = 0;
      const at = all.buckets.find((b) => (seen += b.count) >= all.count * share);
      all[key] = at ? Math.min(at.le_seconds, all.max_seconds) : 0;
    }
    return all;
  }

  function draw() {
    const lateNow = merge("late");
    late.update(lateNow);
    took.update(merge("took"));
    drawNow(lateNow);
    drawHead();
    $("filter").hidden = latest.topics.length < 9 && !$("filter").value;
    setText($("topics-note"), latest.topics.length ? plural(latest.topics.length, "topic") + (latest.members.nodes.length > 1 ? "; done, failed, again, lost, early and late are of " + summed() : "") : "");
    setText($("durations-note"), "all topics" + (latest.members.nodes.length > 1 ? ", " + summed() : ""));
    drawTopics($("topics").tBodies[0], latest, chosen, $("filter").value, (name) => { location.hash = encodeURIComponent(name); }, pauseTopic);
    drawNodes($("nodes").tBodies[0], $("nodes-note"), latest);
    const span = Math.max(60, Math.min(LONGEST, Math.ceil((points[points.length - 1].t - points[0].t) / 30) * 30));
    for (const chart of [done, pending, lag]) chart.update(points, span);
    setText($("window"), "the last " + time(span));
    drawTopic();
    document.body.dataset.drawn = points.length;
  }

  // alone reports whether the sums are of one node of several, since nobody has said where the others are.
  const alone = () => !latest.sums.asked && latest.sums.missing.length > 0;

  // summed says which nodes the sums are of.
  function summed() {
    const { nodes, missing } = latest.sums;
    return alone() ? "this node alone" : missing.length ? `${nodes.length} of ${nodes.length + missing.length} nodes` : `all ${nodes.length} nodes`;
  }

  function drawHead() {
    setText($("subtitle"), `${latest.node} · ${latest.engine} · for ${time(Math.max(0, Math.floor((Date.parse(latest.at) - Date.parse(latest.since)) / 1000)))}`);
    const dead = ofCounts("dead");
    document.title = `Timeouts · ${count(ofCounts("pending"))} pending${dead ? ` · ${count(dead)} dead` : ""}`;
  }

  function drawNow(lateNow) {
    const p = points[points.length - 1], dead = ofCounts("dead"), purged = ofAll("purged"), early = ofAll("early"), again = ofAll("again"), lost = ofAll("lost"), m = latest.members, here = alone() ? " here" : "";
    drawTiles($("tiles"), [
      { id: "pending", what: "Pending", value: count(p.pending), more: plural(latest.topics.length, "topic") },
      { id: "due", what: "Due now", value: count(p.due), more: p.due || p.lag ? `for up to ${time(p.lag)}` : "nothing waits", warn: p.lag > 5 },
      { id: "running", what: "Running", value: count(ofCounts("running")), more: `and ${count(ofAll("queued"))} queued` },
      { id: "done", what: "Done" + here, value: rate(lately("done")), unit: "/s", more: count(ofAll("done")) + " in all" },
      { id: "failed", what: "Failed" + here, value: rate(lately("failed")), unit: "/s", more: `${count(ofAll("failed"))} in all, ${count(ofAll("postponed"))} put off`, warn: lately("failed") > 0 },
      { id: "dead", what: "Dead", value: count(dead), more: purged ? `${count(purged)} deleted` : dead ? "replay or drop them" : "none", warn: dead + purged > 0, title: "Dead tasks are deleted when they are too old (retain_dead) or too many (max_dead)." },
      { id: "again", what: "Again, lost", value: `${count(again)}, ${count(lost)}`, more: "leases expired, lost", warn: again + lost > 0, title: "Tasks that were leased since an earlier lease had expired, and leases that were lost: what may have run twice is in one of them." },
      { id: "early", what: "Early", value: count(early), more: "must be 0", bad: early > 0 },
      { id: "late", what: "Late, p99", value: lateNow.count ? time(lateNow.p99_seconds) : "–", more: lateNow.count ? `max ${time(lateNow.max_seconds)}` : m.nodes.length ? plural(m.nodes.length, "node") : "no node yet" },
    ]);
  }

  // lately is the mean of a rate over the last three seconds or so.
  function lately(name) {
    const end = points[points.length - 1].t;
    let n = 0, all = 0;
    for (let i = points.length - 1; i > 0 && (n === 0 || points[i - 1].t > end - 3.2); i--, n++) all += points[i][name];
    return n ? all / n : 0;
  }

  function drawTopic() {
    const topic = latest.topics.find((t) => t.name === chosen);
    $("topic-card").hidden = !topic;
    if (!topic) return;
    setText($("topic-title"), topic.name);
    setText($("topic-note"), `${plural(topic.owners.length, "slot")}${topic.paused ? ", " + paused(topic) : ""}${topic.pull ? "; programs pull its tasks" : topic.here ? "" : "; this node does not serve it"}`);
    drawOwners($("owners"), $("strip"), latest, topic);
    tasks.tabs(topic.counts);
    drawFacts($("settings"), topicFacts(topic));
  }

  function notices() {
    const all = [];
    if (failure) all.push({ id: "lost", bad: true, head: "No answer.", text: failure });
    if (refused) all.push({ id: "refused", bad: true, head: "Not done.", text: refused });
    if (latest) {
      if (latest.error) all.push({ id: "engine", bad: true, head: "The engine does not answer.", text: latest.error });
      const early = ofAll("early"), { asked, missing, errors } = latest.sums;
      if (asked && missing.length) all.push({ id: "partial", head: "Sums are partial.", text: `No figures of ${missing.slice(0, 20).join(", ")}${errors.length ? ` (${errors.slice(0, 5).join("; ")})` : ", which is at none of the peers"}.` });
      if (early > 0) all.push({ id: "early", bad: true, head: "Early.", text: `${plural(early, "task")} ran before the action time by the engine's clock, which must never be: there is a fault in the engine.` });
      if (latest.circuits.length) all.push({ id: "circuits", head: plural(latest.circuits.length, "open circuit") + ".", text: `No calls are made for a while to what fails: ${latest.circuits.slice(0, 20).join(", ")}.` });
      const { unserved = [] } = latest; // a node of an earlier version has none
      if (unserved.length) all.push({ id: "unserved", bad: true, head: "Nobody runs", text: `what is due of ${unserved.slice(0, 20).join(", ")}: there is no callback for it, and no node has a handler, or a node can't make the tasks' own callbacks.` });
    }
    drawNotices($("notices"), all);
  }

  function state() {
    showLive(failure, frozen, latest, "frozen");
    $("forget").hidden = !token.get();
  }

  async function request() {
    if (asking) { again = true; return; }
    asking = true;
    clearTimeout(timer);
    const begin = performance.now();
    let stats = null;
    try {
      stats = await askJSON("GET", "/v1/stats");
      failure = "";
    } catch (e) {
      missed = true;
      failure = e.status === 401 ? "It waits for a token." : `${e.message}${latest ? `, since ${clock(new Date(latest.at))}` : ""}; trying again.`;
    }
    asking = false;
    try {
      if (stats && frozen) missed = true;
      else if (stats) take(stats);
    } finally { // errors of the page itself are for the console
      notices();
      state();
      plan(again ? 0 : Math.max(50, interval - (performance.now() - begin)));
      again = false;
    }
  }

  function plan(wait) {
    clearTimeout(timer);
    if (!frozen && !document.hidden && !$("token-box").open) timer = setTimeout(request, wait);
  }

  async function pauseTopic(name, on) {
    try {
      await ask("POST", `${topicPath(name)}/${on ? "pause" : "resume"}`);
      refused = "";
    } catch (e) {
      refused = `${name}: ${e.message}`;
      setTimeout((said) => { if (refused === said) { refused = ""; notices(); } }, 10000, refused);
    }
    notices();
    plan(0);
  }

  function freeze(on) {
    frozen = on;
    missed ||= on;
    $("pause").setAttribute("aria-pressed", on);
    setText($("pause"), on ? "Go on" : "Freeze");
    state();
    plan(0);
  }

  function choose() {
    let name = "";
    try { name = decodeURIComponent(location.hash.slice(1)); } catch { /* nobody here has written that */ }
    if (name === "/main" || name === chosen) return; // the page's own anchor, and no topic
    chosen = name;
    tasks.choose(name);
    if (latest) draw();
    if (name) $("topic-card").scrollIntoView({ block: "nearest" });
  }

  function useToken() {
    token.set($("token").value.trim());
    $("token").value = "";
    $("token-box").close();
  }

  $("pause").addEventListener("click", () => freeze(!frozen));
  $("filter").addEventListener("input", () => latest && draw());
  $("topic-close").addEventListener("click", () => { location.hash = ""; });
  $("look-close").addEventListener("click", () => $("look").close());
  $("token-go").addEventListener("click", useToken);
  $("token").addEventListener("keydown", (e) => { if (e.key === "Enter") useToken(); });
  $("token-box").addEventListener("close", () => { failure = ""; plan(0); });
  $("forget").addEventListener("click", () => {
    token.set("");
    frozen = true; // this page asks for nothing more
    location.reload();
  });
  document.addEventListener("keydown", (e) => {
    if (e.key === "p" && !e.ctrlKey && !e.metaKey && !e.altKey && !["SELECT", "INPUT"].includes(e.target.tagName)) freeze(!frozen);
  });
  document.addEventListener("visibilitychange", () => { if (document.hidden) missed = true; plan(0); });
  addEventListener("hashchange", choose);
  $("interval").addEventListener("change", (e) => { interval = Number(e.target.value); stored.set("interval", interval); plan(0); });
  keepTheme();
  const was = stored.get("interval");
  if ([...$("interval").options].some((o) => o.value === was)) { $("interval").value = was; interval = Number(was); }
  choose();
  request();
})();
