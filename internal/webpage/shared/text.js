// How figures are written.

const grouped = new Intl.NumberFormat("en");
const count = (n) => grouped.format(n);

// short is for axes: 1.2k, 3M.
function short(n) {
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (n >= size) return trim(n / size) + unit;
  }
  return trim(n);
}

const trim = (n) => String(Number(n.toFixed(n >= 100 ? 0 : n >= 1 ? 1 : 2)));

// rate is of something per second.
const rate = (n) => (n >= 100 ? count(Math.round(n)) : n === 0 ? "0" : n.toFixed(1));

// time writes seconds: 20 µs, 100 ms, 1.5 s, 2 m 05 s, 3 h 10 m, 2 d 4 h.
function time(sec) {
  if (sec == null) return "never";
  if (sec === 0) return "0 s";
  if (sec < 0.001) return trim(sec * 1e6) + " µs";
  if (sec < 1) return trim(sec * 1e3) + " ms";
  if (sec < 59.95) return trim(sec) + " s";
  const two = (n) => String(n).padStart(2, "0");
  const r = Math.round(sec), m = Math.floor(r / 60), hr = Math.floor(m / 60);
  if (r < 3600) return r % 60 ? `${m} m ${two(r % 60)} s` : `${m} m`;
  if (r < 86400) return m % 60 ? `${hr} h ${two(m % 60)} m` : `${hr} h`;
  return hr % 24 ? `${Math.floor(hr / 24)} d ${hr % 24} h` : `${Math.floor(hr / 24)} d`;
}

// tenths is for what changes all the time, so that it does not jump about.
const tenths = (sec) => (sec == null ? "never" : sec < 59.95 ? sec.toFixed(1) + " s" : time(sec));

const clock = (date) => date.toLocaleTimeString("en-GB");

const words = (name) => name.replaceAll("_", " ");

const plural = (n, one, many = one + "s") => `${count(n)} ${n === 1 ? one : many}`;

// roundUp is the next round number: where an axis ends.
function roundUp(n, round = [1, 2, 5, 10]) {
  if (!(n > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(n));
  return round.map((f) => f * power).find((v) => v >= n * (1 - 1e-9));
}

// roundTime is the next duration that people count in.
const roundTime = (sec) =>
  [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400].find((t) => t >= sec) || Math.ceil(sec / 86400) * 86400;
