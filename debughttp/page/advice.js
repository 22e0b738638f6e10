// makeAdvice draws how many silences reached each share of the timeout.
function makeAdvice(host) {
  const svg = s("svg", { role: "img", tabindex: "0" });
  host.append(svg);
  let shown = null;
  function draw() {
    const width = host.clientWidth, height = host.clientHeight;
    if (!shown || !width || !height) return;
    const all = shown.silences, most = Math.max(1, ...all.map((a) => a.count)), wide = width / all.length;
    const top = 26, bottom = height - 34, y = (n) => bottom - (bottom - top) * (Math.log(n + 1) / Math.log(most + 1));
    const parts = [s("line", { class: "base", x1: 0, x2: width, y1: bottom, y2: bottom })];
    all.forEach((a, i) => {
      const x = i * wide;
      if (a.count) parts.push(s("rect", { class: "bar" + (a.share >= 1 ? " beyond" : ""), x: x + wide * 0.08, width: wide * 0.84, y: y(a.count), height: bottom - y(a.count), rx: 2 }));
      parts.push(s("text", { class: "count", x: x + wide / 2, y: y(a.count) - 5 }, short(a.count)));
      parts.push(s("text", { class: "void", x: x + wide / 2, y: bottom + 14 }, a.share === 1 ? "timeout" : Math.round(a.share * 1000) / 10 + "%"));
      if (wide > 44) parts.push(s("text", { class: "void", x: x + wide / 2, y: bottom + 28 }, time(a.length_seconds)));
      parts.push(s("rect", { class: "hit", x, width: wide, y: top, height: bottom - top }, s("title", {}, `A timeout of ${time(a.length_seconds)} would have closed ${count(a.count)}.`)));
    });
    svg.replaceChildren(...parts);
    svg.setAttribute("aria-label", all.map((a) => `at least ${time(a.length_seconds)}: ${count(a.count)}`).join(", "));
  }
  new ResizeObserver(draw).observe(host);
  return { update(advice) { shown = advice; draw(); } };
}
