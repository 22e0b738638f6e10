// Figures over time.

const LEFT = 44, RIGHT = 6, TOP = 24, BOTTOM = 18;

// charts share the moment that somebody points at.
const charts = [];

// makeChart draws series of points, each {t, ...}: what `series` returns are objects of a
// key, a label, a class and a value function. They are stacked, or lines. What holds
// between two points is drawn as a step.
function makeChart(host, { title, series, stacked, soft, unit = "", format = rate }) {
  const svg = s("svg", { role: "img", tabindex: "0" });
  host.append(svg);
  let points = [], span = 60, pointed = null;

  function draw() {
    const width = host.clientWidth, height = host.clientHeight;
    if (!width || !height) return;
    const right = width - RIGHT, bottom = height - BOTTOM;
    const end = points.length ? points[points.length - 1].t : 0;
    const all = series(points);
    const top = roundUp(Math.max(stacked || soft ? 0 : 1, ...points.map((p) => sum(all, p, stacked))), [1, 1.2, 1.6, 2, 3, 4, 6, 8, 10]);
    const x = (t) => right - ((end - t) / span) * (right - LEFT);
    const y = (v) => bottom - (v / top) * (bottom - TOP);
    const parts = [];
    for (const share of [0, 0.5, 1]) {
      const v = top * share;
      parts.push(s("line", { class: share ? "grid" : "base", x1: LEFT, x2: right, y1: y(v), y2: y(v) }));
      parts.push(s("text", { x: LEFT - 7, y: y(v) + 4, "text-anchor": "end" }, short(v)));
    }
    const step = roundTime(span / 6);
    for (let t = 0; t <= span; t += step) {
      const at = right - (t / span) * (right - LEFT);
      parts.push(s("text", { x: at, y: height - 3, "text-anchor": t === 0 ? "end" : "middle" }, t === 0 ? "now" : "−" + time(t)));
    }
    const seen = points.filter((p) => p.t >= end - span);
    const before = seen.map((_, i) => (i > 0 ? x(seen[i - 1].t) : x(seen[i].t)));
    const under = seen.map(() => 0);
    for (const one of all) {
      const values = seen.map((p) => p.gap ? null : one.value(p));
      const over = values.map((v, i) => (stacked ? under[i] : 0) + (v || 0));
      if (stacked || soft) parts.push(s("path", { class: `area ${one.cls}${soft ? " soft" : ""}`, "data-key": one.key, d: area(seen, values, before, under, over, x, y, stacked) }));
      if (!stacked) parts.push(s("path", { class: `stroke ${one.cls}${one.dashed ? " dashed" : ""}`, "data-key": one.key, d: outline(seen, values, x, y) }));
      if (stacked) over.forEach((v, i) => { under[i] = v; });
    }
    for (const p of seen) {
      if (p.stalls) parts.push(s("line", { class: "stall", x1: x(p.t), x2: x(p.t), y1: TOP, y2: bottom }, s("title", {}, "the process was stopped")));
    }
    const now = points.length ? sum(all, points[points.length - 1], stacked, true) : null;
    parts.push(s("text", { class: "head", x: 0, y: 12 }, title));
    if (now) parts.push(s("text", { class: "now", x: right, y: 12 }, now));
    if (pointed !== null && seen.length) {
      const p = nearest(seen, pointed);
      parts.push(s("line", { class: "cross", x1: x(p.t), x2: x(p.t), y1: TOP, y2: bottom }));
    }
    svg.replaceChildren(...parts);
    svg.setAttribute("aria-label", `${title}${now ? ", now " + now : ""}. Arrow keys go through time.`);
  }

  // sum is the height of a point, or what is said of it.
  function sum(all, p, stacked, said) {
    const values = all.map((one) => one.value(p) || 0);
    if (!said) return stacked ? values.reduce((a, b) => a + b, 0) : Math.max(0, ...values);
    if (stacked) return format(values.reduce((a, b) => a + b, 0)) + unit;
    return all.map((one, i) => (all.length > 1 ? one.label + " " : "") + format(values[i]) + unit).join(" · ");
  }

  const nearest = (seen, t) => seen.reduce((a, b) => (Math.abs(b.t - t) < Math.abs(a.t - t) ? b : a));

  // An area of rates is made of steps, as each holds from the point before on; one of
  // states goes from point to point.
  function area(seen, values, before, under, over, x, y, steps) {
    let d = "";
    for (let i = 0; i < seen.length; i++) {
      if (values[i] === null || (steps && !values[i])) continue;
      const x1 = x(seen[i].t).toFixed(1);
      if (steps) d += `M${before[i].toFixed(1)} ${y(under[i]).toFixed(1)}V${y(over[i]).toFixed(1)}H${x1}V${y(under[i]).toFixed(1)}Z`;
      else if (i > 0 && values[i - 1] !== null) d += `M${before[i].toFixed(1)} ${y(0)}V${y(over[i - 1]).toFixed(1)}L${x1} ${y(over[i]).toFixed(1)}V${y(0)}Z`;
    }
    return d;
  }

  function outline(seen, values, x, y) {
    let d = "", pen = "M";
    values.forEach((v, i) => {
      if (v === null) { pen = "M"; return; }
      d += `${pen}${x(seen[i].t).toFixed(1)} ${y(v).toFixed(1)}`;
      pen = "L";
    });
    return d;
  }

  function say(t, clientX, clientY) {
    const end = points[points.length - 1].t, seen = points.filter((p) => p.t >= end - span);
    const p = nearest(seen, t), rows = series(points).map((one) => ({ one, v: one.value(p) })).filter(({ v }) => v || !stacked);
    if (stacked) rows.reverse();
    tip.show(clientX, clientY, h("div", {}, clock(p.wall)), ...(p.gap
      ? ["not watched"]
      : rows.length ? rows.map(({ one, v }) => tip.row(one.cls, one.label, format(v || 0) + unit)) : [title + ": 0"]));
    for (const chart of charts) chart.point(p.t);
  }

  svg.addEventListener("pointermove", (e) => {
    if (!points.length) return;
    const box = svg.getBoundingClientRect(), share = (e.clientX - box.left - LEFT) / (box.width - LEFT - RIGHT);
    say(points[points.length - 1].t - span * (1 - Math.min(1, Math.max(0, share))), e.clientX, e.clientY);
  });
  const leave = () => { tip.hide(); for (const chart of charts) chart.point(null); };
  svg.addEventListener("pointerleave", leave);
  svg.addEventListener("blur", leave);
  svg.addEventListener("keydown", (e) => {
    if (!points.length || (e.key !== "ArrowLeft" && e.key !== "ArrowRight")) return;
    e.preventDefault();
    const i = pointed === null ? points.length : points.indexOf(nearest(points, pointed)) + (e.key === "ArrowLeft" ? -1 : 1);
    const p = points[Math.max(0, Math.min(points.length - 1, i))], box = svg.getBoundingClientRect();
    say(p.t, box.left + LEFT, box.top + TOP);
  });

  const chart = {
    update(newPoints, newSpan) { points = newPoints; span = newSpan; draw(); },
    point(t) { if (pointed !== t) { pointed = t; draw(); } },
  };
  charts.push(chart);
  new ResizeObserver(draw).observe(host);
  return chart;
}
