// The wheel: a ring for each level, the finest outside, and in it a bar for each slot.

const TAU = 2 * Math.PI, CENTRE = 280, HUB = 84, RIM = 246, SHADES = 8;

function makeWheel(svg, readout) {
  let shape = "";
  let rings = [];
  let cell, total, under, marks, timeoutMark;
  let phase = null; // how many slots of the finest ring the hand has gone, less the clock
  let swept = 0; // up to which slot the drawn hand has emptied them
  let running = false;
  let picked = null; // the ring and slot that somebody points at
  let last = null;

  const point = (r, turn) => [CENTRE + r * Math.sin(turn * TAU), CENTRE - r * Math.cos(turn * TAU)];
  const at = (r, turn) => point(r, turn).map((v) => v.toFixed(2)).join(" ");

  // sector is the outline of a part of a ring; angles are in turns from the top.
  function sector(r0, r1, from, to) {
    const large = to - from > 0.5 ? 1 : 0;
    return `M${at(r0, from)}L${at(r1, from)}A${r1} ${r1} 0 ${large} 1 ${at(r1, to)}L${at(r0, to)}A${r0} ${r0} 0 ${large} 0 ${at(r0, from)}Z`;
  }

  const circle = (r) => `M${at(r, 0)}A${r} ${r} 0 1 1 ${at(r, 0.5)}A${r} ${r} 0 1 1 ${at(r, 0)}Z`;

  function build(levels) {
    svg.replaceChildren();
    rings = [];
    // The outer ring is the one where most happens.
    const weights = levels.map((_, i) => (i === 0 ? 1.9 : 1));
    const gap = 9, room = RIM - HUB - gap * levels.length;
    const unit = room / weights.reduce((a, b) => a + b, 0);
    let outside = RIM;
    levels.forEach((level, i) => {
      const r1 = outside, r0 = r1 - unit * weights[i];
      outside = r0 - gap;
      const track = s("path", { class: "track", "fill-rule": "evenodd", d: circle(r1) + circle(r0) });
      const bars = s("g", { class: "slots", "data-level": i });
      const slots = level.slots.map((_, n) => s("path", { class: "slot", "data-slot": n }));
      bars.append(...slots);
      // A dash for each slot, as far as they can be told apart.
      const ticks = s("path", { class: "ticks", d: circle(r0 - 2.5), pathLength: level.slots.length, "stroke-dasharray": level.slots.length <= 128 ? "0.8 0.2" : "0.5 0.5" });
      svg.append(track, ticks, bars);
      rings.push({ r0, r1, size: level.slots.length, span: level.span_seconds, slots, drawn: [] });
    });
    const trail = s("g", { class: "trail" });
    for (let i = 0; i < 24; i++) {
      trail.append(s("path", { d: sector(rings[0].r0, rings[0].r1, -(i + 1) / 240, -i / 240), opacity: (0.34 * (1 - i / 24) ** 2).toFixed(3) }));
    }
    marks = s("g", { class: "marks" });
    svg.append(marks);
    rings.forEach((ring, i) => {
      ring.hand = s("g", { class: "turning", "data-hand-of": i },
        i === 0 ? trail : null,
        s("path", { class: "hand", "stroke-width": 2 + 1.2 * i, d: `M${at(HUB - 4, 0)}L${at(i === 0 ? ring.r1 + 7 : ring.r1 - 2, 0)}` }),
        i === 0 ? s("circle", { class: "pin", cx: CENTRE, cy: CENTRE - ring.r1 - 7, r: 4.5 }) : null);
      svg.append(ring.hand);
    });
    cell = s("path", { class: "cell" });
    total = s("text", { class: "total", x: CENTRE, y: CENTRE + 6 });
    under = s("text", { class: "under", x: CENTRE, y: CENTRE + 27 });
    svg.append(cell, s("circle", { class: "hub", cx: CENTRE, cy: CENTRE, r: HUB - 4 }), total, under);
    buildMarks();
  }

  // buildMarks makes the scale around the rim: how long until the hand is there. It
  // turns with the hand.
  function buildMarks() {
    const turn = rings[0].size * rings[0].span, step = roundTime(turn / 8);
    marks.replaceChildren();
    for (let t = step; t < turn - step / 3; t += step) {
      const mark = s("g", { class: "mark" }, s("line"), s("text", {}, time(t)));
      mark.ahead = t / turn;
      marks.append(mark);
    }
    timeoutMark = s("g", { class: "mark timeout" }, s("line"), s("text", {}, "timeout"));
    marks.append(timeoutMark);
  }

  // shade is how full a slot is, from 1 to SHADES, on a logarithmic scale.
  const shade = (n, most) => 1 + Math.min(SHADES - 1, Math.floor((Math.log(n) / Math.log(Math.max(most, 2))) * SHADES));

  function draw(levels, most) {
    levels.forEach((level, i) => {
      const ring = rings[i], thick = ring.r1 - ring.r0, narrow = 0.13 / ring.size;
      level.slots.forEach((n, j) => {
        const key = n === 0 ? "" : n + "/" + most;
        if (ring.drawn[j] === key) return;
        ring.drawn[j] = key;
        const bar = ring.slots[j];
        if (n === 0) {
          bar.removeAttribute("d");
          bar.setAttribute("class", "slot");
          return;
        }
        const height = thick * (0.12 + 0.88 * Math.log(n + 1) / Math.log(most + 1));
        bar.setAttribute("d", sector(ring.r0, ring.r0 + height, j / ring.size + narrow, (j + 1) / ring.size - narrow));
        bar.setAttribute("class", "slot f" + shade(n, most));
      });
    });
  }

  function turnHands(slots) {
    let gone = slots;
    for (const [i, ring] of rings.entries()) {
      if (i > 0) gone = last.levels[i].hand + (((gone * rings[i - 1].span) / ring.span) % 1);
      ring.hand.setAttribute("transform", `rotate(${(((gone / ring.size) % 1) * 360).toFixed(3)} ${CENTRE} ${CENTRE})`);
    }
    const hand = (slots / rings[0].size) % 1, r = rings[0].r1;
    for (const mark of marks.children) place(mark, hand + mark.ahead, r);
  }

  function place(mark, turn, r) {
    const [line, text] = mark.children, [x1, y1] = point(r + 2, turn), [x2, y2] = point(r + 7, turn), [x, y] = point(r + 20, turn);
    for (const [name, v] of Object.entries({ x1, y1, x2, y2 })) line.setAttribute(name, v.toFixed(2));
    text.setAttribute("x", x.toFixed(2));
    text.setAttribute("y", y.toFixed(2));
  }

  // sweep empties the slots that the drawn hand has passed since the last answer, as
  // the real one has.
  function sweep(slots) {
    const ring = rings[0];
    for (swept = Math.max(swept, Math.floor(slots) - 20); swept < Math.floor(slots); swept++) {
      const slot = ((swept % ring.size) + ring.size) % ring.size;
      if (!ring.drawn[slot]) continue;
      ring.drawn[slot] = "";
      ring.slots[slot].removeAttribute("d");
    }
  }

  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  function frame(now) {
    if (!running) return;
    if (!calm.matches) {
      const slots = phase + now / 1000 / rings[0].span;
      turnHands(slots);
      sweep(slots);
    }
    requestAnimationFrame(frame);
  }

  // follow lets the drawn hand run by itself between two looks, and nudges it to where
  // the real one is.
  function follow(hand) {
    const ring = rings[0], gone = performance.now() / 1000 / ring.span;
    const real = hand + 1 - gone; // it has taken the slot: it stands at its end
    const off = phase === null ? Infinity : ((((real - phase) % ring.size) + 1.5 * ring.size) % ring.size) - ring.size / 2;
    phase = Math.abs(off) > 0.3 / ring.span + 2 ? real : phase + off / 4;
    swept = Math.floor(phase + gone);
    if (calm.matches || !running) turnHands(hand + 1);
  }

  function describe() {
    if (!picked || !last) {
      cell.removeAttribute("d");
      setText(readout, "Point at a slot to see what waits in it.");
      return;
    }
    const { ring: i, slot } = picked, ring = rings[i], level = last.levels[i];
    const ahead = ((slot - level.hand + ring.size) % ring.size) || ring.size;
    cell.setAttribute("d", sector(ring.r0, ring.r1, slot / ring.size, (slot + 1) / ring.size));
    const outer = i === 0;
    setText(readout, `${nameOf(i, rings.length)}, slot ${slot}: ${plural(level.slots[slot], "timer")}. The hand comes ${
      outer ? "in " + time(ahead * ring.span) : `within ${time(ahead * ring.span)}, and files them further out`}.`);
  }

  function pick(ring, slot) {
    picked = ring == null ? null : { ring, slot };
    describe();
  }

  svg.addEventListener("pointermove", (e) => {
    const box = svg.getBoundingClientRect(), scale = (2 * CENTRE) / box.width;
    const x = (e.clientX - box.left) * scale - CENTRE, y = (e.clientY - box.top) * scale - CENTRE;
    const r = Math.hypot(x, y), turn = (Math.atan2(x, -y) / TAU + 1) % 1;
    const ring = rings.findIndex((ring) => r >= ring.r0 && r <= ring.r1);
    if (ring < 0) pick(null);
    else pick(ring, Math.floor(turn * rings[ring].size));
  });
  svg.addEventListener("pointerleave", () => pick(null));
  svg.addEventListener("blur", () => pick(null));
  svg.addEventListener("keydown", (e) => {
    if (!last) return;
    const now = picked || { ring: 0, slot: last.levels[0].hand }, size = rings[now.ring].size;
    const far = e.shiftKey ? 10 : 1, other = (to) => pick(to, Math.floor((now.slot / size) * rings[to].size));
    switch (e.key) {
      case "ArrowRight": pick(now.ring, (now.slot + far) % size); break;
      case "ArrowLeft": pick(now.ring, (now.slot - far + size * 10) % size); break;
      case "ArrowDown": other(Math.min(now.ring + 1, rings.length - 1)); break;
      case "ArrowUp": other(Math.max(now.ring - 1, 0)); break;
      case "Home": pick(now.ring, last.levels[now.ring].hand); break;
      case "Escape": pick(null); break;
      default: return;
    }
    e.preventDefault();
  });

  return {
    update(snapshot) {
      last = snapshot.wheel;
      const now = last.levels.map((l) => l.slots.length + "×" + l.span_seconds).join();
      if (now !== shape) {
        shape = now;
        phase = null;
        picked = null;
        build(last.levels);
      }
      const fullest = Math.max(...last.levels.map((l) => l.slots.reduce((a, b) => Math.max(a, b), 0)));
      const most = Math.max(8, roundUp(fullest));
      draw(last.levels, most);
      const turn = rings[0].size * rings[0].span, timeout = snapshot.settings.timeout_seconds;
      timeoutMark.ahead = timeout / turn;
      timeoutMark.setAttribute("display", timeout < turn ? "inline" : "none");
      // No scale where the word is.
      for (const mark of marks.children) {
        if (mark !== timeoutMark) mark.setAttribute("display", timeout < turn && Math.abs(mark.ahead - timeoutMark.ahead) < 0.045 ? "none" : "inline");
      }
      follow(last.levels[0].hand);
      svg.dataset.hand = last.levels[0].hand;
      svg.dataset.filed = last.levels.reduce((sum, l) => sum + l.slots.reduce((a, b) => a + b, 0), 0);
      const open = count(snapshot.connections.open);
      setText(total, open);
      total.style.fontSize = Math.min(34, 230 / open.length) + "px";
      setText(under, snapshot.connections.open === 1 ? "connection" : "connections");
      describe();
      return { most };
    },
    run(on) {
      if (on && !running && rings.length) {
        running = true;
        phase = null;
        follow(last.levels[0].hand);
        requestAnimationFrame(frame);
      } else if (!on) running = false;
    },
  };
}

const nameOf = (i, of) => (of === 1 ? "The ring" : i === 0 ? "Outer ring" : i === of - 1 ? "Inner ring" : of === 3 ? "Middle ring" : "Ring " + (i + 1));

// drawScale says what the shades of the slots mean.
function drawScale(host, most) {
  if (host.dataset.most === String(most)) return;
  host.dataset.most = most;
  const steps = h("div", { class: "steps" });
  for (let i = 1; i <= SHADES; i++) {
    const from = Math.ceil(most ** ((i - 1) / SHADES)), to = Math.max(from, Math.ceil(most ** (i / SHADES)) - (i < SHADES ? 1 : 0));
    steps.append(h("span", { class: "step s" + i, title: from === to ? plural(from, "timer") : `${count(from)} to ${count(to)} timers` }));
  }
  host.replaceChildren(h("span", {}, "timers in a slot"), h("b", {}, "1"), steps, h("b", {}, count(most)));
}

function drawLevels(host, levels) {
  host.replaceChildren(...levels.map((l, i) => h("li", {},
    h("b", {}, nameOf(i, levels.length)),
    `${count(l.slots.length)} slots of ${time(l.span_seconds)}, a turn is ${time(l.span_seconds * l.slots.length)}; `,
    plural(l.slots.reduce((a, b) => a + b, 0), "timer"))));
}
