"use strict";

// What comes from outside gets into the page as text only: nothing here takes markup.

const $ = (id) => document.getElementById(id);

// fill gives an element its attributes and children, of which strings are text.
function fill(e, attrs, children) {
  for (const [name, value] of Object.entries(attrs)) {
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (value === true) e.setAttribute(name, "");
    else if (value !== false && value != null) e.setAttribute(name, value);
  }
  e.append(...children.filter((c) => c != null));
  return e;
}

const h = (tag, attrs = {}, ...children) => fill(document.createElement(tag), attrs, children);
const s = (tag, attrs = {}, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attrs, children);

const setText = (e, text) => { if (e.textContent !== text) e.textContent = text; };

// stored is a setting that outlives the page, where the browser lets it.
const stored = {
  get(name) { try { return localStorage.getItem("heartwheel." + name); } catch { return null; } },
  set(name, value) { try { localStorage.setItem("heartwheel." + name, value); } catch { /* not here then */ } },
};

// tip is the one box that says what is pointed at.
const tip = {
  show(x, y, ...content) {
    const box = $("tip");
    box.replaceChildren(...content);
    box.hidden = false;
    const { width, height } = box.getBoundingClientRect();
    box.style.left = Math.max(4, Math.min(x + 14, innerWidth - width - 8)) + "px";
    box.style.top = Math.max(4, y - height - 12 > 4 ? y - height - 12 : y + 16) + "px";
  },
  hide() { $("tip").hidden = true; },
  row: (cls, label, value) => h("div", { class: "row" }, cls && h("span", { class: "dot " + cls }), label, h("b", {}, value)),
};
