// How long things took: a bar for each bucket, with a logarithmic scale.

// LIMITS are those of all buckets there are: 10, 20, 50 µs and so on.
const LIMITS = Array.from({ length: 36 }, (_, i) => [1e-5, 2e-5, 5e-5][i % 3] * 10 ** Math.floor(i / 3));
const lower = (i) => (i === 0 ? 0 : LIMITS[i - 1]);

function makeHistogram(host, { title, empty, least = 7, promise }) {
  const svg = s("svg", { role: "img", tabindex: "0" });
  host.append(svg);
  let shown = null, promised = 0;

  function draw() {
    const width = host.clientWidth, height = host.clientHeight;
    if (!shown || !width || !height) return;
    const top = 42, bottom = height - 20, base = s("line", { class: "base", x1: 0, x2: width, y1: bottom, y2: bottom });
    const head = [s("text", { class: "head", x: 0, y: 12 }, title), s("text", { x: 0, y: 28 }, summary())];
    svg.setAttribute("aria-label", `${title}: ${summary()}`);
    if (!shown.count && !promise) {
      svg.replaceChildren(...head, base, s("text", { class: "void", x: width / 2, y: (top + bottom) / 2 }, empty));
      return;
    }
    const counts = shown.buckets.map((b) => b.count), first = Math.max(0, counts.findIndex((n) => n > 0));
    let to = counts.length - 1, from = first;
    if (promise) {
      const at = LIMITS.findIndex((l) => l >= promised * (1 - 1e-9));
      from = Math.min(shown.count ? first : at, Math.max(0, at - 5));
      to = Math.max(to, at + 1);
    }
    while (to - from + 1 < least) if (from > 0 && (to - first) > (first - from)) from--; else to++;
    const early = promise ? Math.min(74, width * 0.16) : 0, wide = (width - early) / (to - from + 1);
    const most = Math.max(1, ...counts), parts = [];
    const y = (n) => bottom - (bottom - top - 12) * (Math.log(n + 1) / Math.log(most + 1));
    if (early) {
      parts.push(s("defs", {}, s("pattern", { id: "hatch", width: 7, height: 7, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" }, s("line", { class: "hatch", x1: 0, x2: 0, y1: 0, y2: 7 }))),
        s("rect", { class: "early", x: 0, y: top, width: early - 8, height: bottom - top }),
        s("text", { class: "void", x: (early - 8) / 2, y: bottom + 15 }, "early"),
        s("title", {}, "Early cannot be: the wheel looks at the clock before anything expires."));
    }
    for (let i = from; i <= to; i++) {
      const n = counts[i] || 0, x = early + (i - from) * wide;
      if (n) {
        parts.push(s("rect", { class: "bar" + (promise && lower(i) >= promised * (1 - 1e-9) ? " beyond" : ""), "data-count": n, x: x + wide * 0.08, width: wide * 0.84, y: y(n), height: bottom - y(n), rx: 2 }));
        if (wide > 24) parts.push(s("text", { class: "count", x: x + wide / 2, y: y(n) - 4 }, short(n)));
      }
      // A label for each decade, and for each bucket where there is room.
      if (i < LIMITS.length && (wide > 46 || i % 3 === 0)) parts.push(s("text", { class: "void", x: x + wide, y: bottom + 15 }, i === to ? "" : time(LIMITS[i])));
      parts.push(s("rect", { class: "hit", x, width: wide, y: top, height: bottom - top },
        s("title", {}, `${i < LIMITS.length ? `${time(lower(i))} to ${time(LIMITS[i])}` : `over ${time(lower(i))}`}: ${count(n)}`)));
    }
    if (promise) {
      const x = early + where(promised, from) * wide;
      parts.push(s("line", { class: "promise", x1: x, x2: x, y1: top - 8, y2: bottom }),
        s("text", { class: "promised", x: x > width - 60 ? x - 6 : x + 6, y: top, "text-anchor": x > width - 60 ? "end" : "start" }, "two ticks"));
    }
    svg.replaceChildren(...parts, base, ...head);
  }

  // where is how many buckets from the first one a duration is.
  function where(sec, from) {
    const i = LIMITS.findIndex((l) => l >= sec * (1 - 1e-9));
    const low = lower(i) || LIMITS[0] / 10;
    return i - from + (Math.log(sec) - Math.log(low)) / (Math.log(LIMITS[i]) - Math.log(low));
  }

  function summary() {
    if (!shown.count) return promise ? "nobody was closed for a silence yet" : "";
    const of = `${count(shown.count)}: p50 ${time(shown.p50_seconds)}, p99 ${time(shown.p99_seconds)}, max ${time(shown.max_seconds)}`;
    if (!promise) return of;
    const beyond = shown.buckets.reduce((sum, b, i) => sum + (lower(i) >= promised * (1 - 1e-9) ? b.count : 0), 0);
    return `${of}; ${shown.max_seconds <= promised ? "all within two ticks" : beyond ? `${count(beyond)} later than two ticks` : "max over two ticks"}`;
  }

  new ResizeObserver(draw).observe(host);
  return { update(histogram, limit) { shown = histogram; promised = limit; draw(); } };
}
