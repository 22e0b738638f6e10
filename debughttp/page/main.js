// Asking, and what is remembered between two answers.

(() => {
  const LONGEST = 300, PATIENCE = 8000;

  const wheel = makeWheel($("wheel"), $("readout"));
  const reasonsSeen = (points) => (latest ? latest.reasons.filter((r) => points.some((p) => p.closed[r.name] > 0)) : []);
  const open = makeChart($("chart-open"), {
    title: "Connections", soft: true, format: count,
    series: () => [{ key: "open", label: "connections", cls: "c-open", value: (p) => p.open }],
  });
  const closed = makeChart($("chart-closed"), {
    title: "Closed per second, by reason", stacked: true, unit: "/s",
    series: (points) => reasonsSeen(points).map((r) => ({ key: r.name, label: words(r.name), cls: "r-" + r.name, value: (p) => p.closed[r.name] })),
  });
  const opened = makeChart($("chart-opened"), {
    title: "New connections per second", unit: "/s",
    series: () => [
      { key: "opened", label: "opened", cls: "c-opened", value: (p) => p.opened },
      { key: "refused", label: "refused", cls: "c-refused", dashed: true, value: (p) => p.refused },
    ],
  });
  const refiled = makeChart($("chart-refiled"), {
    title: "Found touched and refiled per second", soft: true, unit: "/s",
    series: () => [{ key: "refiled", label: "refiled", cls: "c-refiled", value: (p) => p.refiled }],
  });
  const late = makeHistogram($("late"), { title: "Late: from the deadline to the decision", promise: true, least: 9 });
  const passes = makeHistogram($("passes"), { title: "A pass of the hand", empty: "none yet" });
  const ages = makeHistogram($("ages"), { title: "Age at the end", empty: "none has ended yet" });
  const trips = makeHistogram($("trips"), { title: "Probe to answer", empty: "no probe was answered yet" });
  const advice = makeAdvice($("advice"));

  let latest = null, points = [], wanted = new Set(), newest = null, stalledAt = null;
  let paused = false, timer = 0, asking = false, missed = false, failure = "";
  let interval = 1000;

  function take(snapshot) {
    if (latest && latest.at === snapshot.at) return; // the same one once more
    if (latest && latest.started_at !== snapshot.started_at) { // another process
      points = [];
      newest = null;
      stalledAt = null;
      latest = null;
    }
    snapshot.texts = Object.fromEntries(snapshot.reasons.map((r) => [r.name, r.text]));
    remember(latest, snapshot);
    latest = snapshot;
    draw();
    newest = snapshot.ended;
  }

  // remember makes a point of what happened between two answers.
  function remember(from, to) {
    const took = from ? to.uptime_seconds - from.uptime_seconds : 0;
    const c = to.connections, per = (now, before) => (took > 0 ? Math.max(0, now - before) / took : 0);
    const refusedOf = (s) => s.connections.refused.full + s.connections.refused.per_key + s.connections.refused.per_user + s.connections.refused.drain;
    const gap = missed && points.length > 0;
    missed = false;
    if (gap) points.push({ ...points[points.length - 1], t: to.uptime_seconds - 0.001, gap: true });
    const closedNow = {};
    for (const name of Object.keys(c.closed)) closedNow[name] = from && !gap ? per(c.closed[name], from.connections.closed[name] || 0) : 0;
    const stalls = from ? to.wheel.stalls - from.wheel.stalls : 0;
    if (stalls > 0) stalledAt = new Date(to.at);
    points.push({
      t: to.uptime_seconds, wall: new Date(to.at), open: c.open, closed: closedNow, stalls,
      opened: from && !gap ? per(c.opened, from.connections.opened) : 0,
      refused: from && !gap ? per(refusedOf(to), refusedOf(from)) : 0,
      refiled: from && !gap ? per(to.wheel.refiled, from.wheel.refiled) : 0,
      saved: from && !gap ? per(to.wheel.saved, from.wheel.saved) : 0,
    });
    while (points.length > 2 && points[1].t < to.uptime_seconds - LONGEST - 5) points.shift();
  }

  // lately is the mean of a rate over the last three seconds or so.
  function lately(value) {
    const end = points[points.length - 1].t;
    let n = 0, sum = 0;
    for (let i = points.length - 1; i > 0 && (n === 0 || points[i - 1].t > end - 3.2); i--, n++) sum += value(points[i]);
    return n ? sum / n : 0;
  }

  function draw() {
    const { most } = wheel.update(latest);
    wheel.run(!paused && !document.hidden);
    drawScale($("scale"), most);
    drawLevels($("levels"), latest.wheel.levels);
    drawCharts();
    const promise = 2 * latest.wheel.tick_seconds;
    late.update(latest.wheel.late, promise);
    passes.update(latest.wheel.passes);
    ages.update(latest.ages);
    trips.update(latest.round_trips);
    $("advice-card").hidden = !latest.advice;
    if (latest.advice) {
      advice.update(latest.advice);
      setText($("advice-note"), `how many silences were at least so long, so how many a shorter timeout would have closed; ${plural(latest.advice.near_misses, "near miss", "near misses")}, in the last fifth of the timeout`);
    }
    drawHead();
    drawNow();
    drawIdlest($("idlest").tBodies[0], latest.idlest);
    const old = (new Date(latest.at) - new Date(latest.idlest_at)) / 1000;
    setText($("idlest-note"), [old > 2 ? `as of ${time(Math.round(old))} ago` : "", latest.addrs_hidden ? "addresses are hidden: a name is a host" : ""].filter(Boolean).join("; "));
    drawReasons();
    drawSettings($("settings"), $("off"), latest.settings);
    notices();
    document.body.dataset.drawn = points.length;
  }

  function drawCharts() {
    const span = Math.max(60, Math.min(LONGEST, Math.ceil((points[points.length - 1].t - points[0].t) / 30) * 30));
    for (const chart of [open, closed, opened, refiled]) chart.update(points, span);
    setText($("window"), "the last " + time(span));
  }

  function drawHead() {
    setText($("name"), latest.name);
    document.title = `${latest.name} · ${count(latest.connections.open)} · Heartwheel`;
    setText($("subtitle"), `timeout ${time(latest.settings.timeout_seconds)}, tick ${time(latest.wheel.tick_seconds)}, watched for ${time(Math.floor(latest.uptime_seconds))}`);
  }

  function drawNow() {
    const c = latest.connections, w = latest.wheel, promise = 2 * w.tick_seconds;
    const sum = (counts) => Object.values(counts).reduce((a, b) => a + b, 0);
    const closing = lately((p) => sum(p.closed)), refusedAll = sum(c.refused);
    const tiles = [
      { what: "Connections", value: count(c.open), more: latest.settings.max_conns ? `of ${count(latest.settings.max_conns)}${c.leaving ? `, ${count(c.leaving)} leaving` : ""}` : c.leaving ? count(c.leaving) + " leaving" : "no limit" },
      { what: "Opened", value: rate(lately((p) => p.opened)), unit: "/s", more: count(c.opened) + " in all" },
      { what: "Closed", value: rate(closing), unit: "/s", more: count(sum(c.closed)) + " in all" },
      { what: "Refused", value: rate(lately((p) => p.refused)), unit: "/s", more: count(refusedAll) + " in all", warn: lately((p) => p.refused) > 0 },
      { what: "Found touched", value: rate(lately((p) => p.refiled)), unit: "/s", more: `${count(w.saved)} saved when due`, title: "Connections that the hand found touched and filed again. Touches themselves are not counted." },
      { what: "Late, p99", value: w.late.count ? time(w.late.p99_seconds) : "–", more: w.late.count ? `max ${time(w.late.max_seconds)}` : "none was due yet", warn: w.late.p99_seconds > promise },
      { what: "Due now", value: count(w.due), more: w.backlog ? `${count(w.backlog)} wait for a worker` : `${count(w.pending)} to come`, warn: w.backlog > 0 },
    ];
    if (latest.streams) tiles.push({ what: "Event streams", value: count(latest.streams.open), more: `${plural(latest.streams.comments, "comment")}${latest.streams.slow ? `, ${count(latest.streams.slow)} too slow` : ""}`, title: "Open event streams, and the comments that kept quiet ones alive." });
    drawTiles($("tiles"), tiles);
  }

  function drawReasons() {
    drawLegend($("legend"), latest, wanted, (name) => {
      if (!wanted.delete(name)) wanted.add(name);
      drawReasons();
    });
    drawRecent($("recent").tBodies[0], $("recent-note"), latest, wanted, newest);
  }

  function notices() {
    const all = [];
    if (failure) all.push({ id: "lost", bad: true, head: "No answer.", text: failure });
    if (latest) {
      const c = latest.connections, w = latest.wheel, would = Object.entries(c.would_close).filter(([, n]) => n > 0);
      if (latest.draining) all.push({ id: "draining", head: "Draining.", text: `New connections are refused; ${plural(c.open, "connection")} left${c.leaving ? `, ${count(c.leaving)} of which have their last words` : ""}.` });
      if (latest.pressure_reduction > 0) all.push({ id: "pressure", head: "Pressure.", text: `Timeouts are shortened, by ${Math.round(latest.pressure_reduction * 100)} % of the way from ${time(latest.settings.timeout_seconds)} to ${time(latest.settings.pressure_timeout_seconds)}.` });
      if (latest.settings.dry_run) all.push({ id: "dry", head: "Dry run: nobody is closed.", text: would.length ? "Would have been: " + would.map(([name, n]) => `${words(name)} ${count(n)}`).join(", ") + "." : "Nobody would have been, so far." });
      if (w.stalls > 0) all.push({ id: "stalls", head: plural(w.stalls, "stall") + ".", text: `The process was stopped for ${time(w.stalled_seconds)} in all, which counted in nobody's timeout${stalledAt ? "; the last time was noticed at " + clock(stalledAt) : ""}.` });
      if (c.panics > 0) all.push({ id: "panics", bad: true, head: plural(c.panics, "panic") + ".", text: "Functions of the program have panicked; the log says where." });
    }
    drawNotices($("notices"), all);
  }

  const state = () => showLive(failure, paused, latest);

  // request returns a snapshot, or an error in words.
  async function request() {
    let answer;
    try {
      answer = await fetch(address(), { cache: "no-store", signal: AbortSignal.timeout(PATIENCE) });
    } catch (e) {
      throw new Error(e.name === "TimeoutError" ? "The server takes too long" : "The server can't be reached");
    }
    if (!answer.ok) throw new Error(`${answer.status}: ${(await answer.text()).slice(0, 300).trim()}`);
    return answer.json();
  }

  async function ask() {
    if (asking) return;
    asking = true;
    clearTimeout(timer);
    const begin = performance.now();
    let snapshot = null;
    try {
      snapshot = await request();
      failure = "";
    } catch (e) {
      missed = true;
      failure = `${e.message}${latest ? `, since ${clock(new Date(latest.at))}` : ""}; trying again.`;
      wheel.run(false);
    }
    asking = false;
    try {
      if (snapshot && paused) missed = true;
      else if (snapshot) take(snapshot);
    } finally { // what is wrong with the page itself is for the console
      notices();
      state();
      plan(Math.max(50, interval - (performance.now() - begin)));
    }
  }

  function plan(wait) {
    clearTimeout(timer);
    if (!paused && !document.hidden) timer = setTimeout(ask, wait);
  }

  function pause(on) {
    paused = on;
    missed ||= on;
    $("pause").setAttribute("aria-pressed", on);
    setText($("pause"), on ? "Go on" : "Pause");
    wheel.run(!on && latest !== null && !document.hidden);
    state();
    plan(0);
  }

  $("pause").addEventListener("click", () => pause(!paused));
  document.addEventListener("keydown", (e) => {
    if (e.key === "p" && !e.ctrlKey && !e.metaKey && !e.altKey && e.target.tagName !== "SELECT") pause(!paused);
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) missed = true;
    wheel.run(!document.hidden && !paused && latest !== null);
    plan(0);
  });
  $("interval").addEventListener("change", (e) => {
    interval = Number(e.target.value);
    stored.set("interval", interval);
    plan(0);
  });
  keepTheme();
  const was = stored.get("interval");
  if ([...$("interval").options].some((o) => o.value === was)) { $("interval").value = was; interval = Number(was); }
  ask();
})();
