// Requests to the server, with a token if the server wants one.

const PATIENCE = 15000;

const token = {
  get() { try { return sessionStorage.getItem("heartwheel.token") || ""; } catch { return this.here || ""; } },
  set(value) { this.here = value; try { value ? sessionStorage.setItem("heartwheel.token", value) : sessionStorage.removeItem("heartwheel.token"); } catch { /* only here then */ } },
};

class Refused extends Error {
  constructor(status, text) { super(text); this.status = status; }
}

// ask makes a request and returns the answer's text, or throws an error in words.
async function ask(method, path, body) {
  const headers = {}, secret = token.get();
  if (secret) headers.Authorization = "Bearer " + secret;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body), cache: "no-store", credentials: "omit", redirect: "error", signal: AbortSignal.timeout(PATIENCE) });
  } catch (e) {
    throw new Error(e.name === "TimeoutError" ? "The server takes too long" : "The server can't be reached");
  }
  const text = await answer.text();
  if (!answer.ok) {
    let detail = text.slice(0, 300).trim();
    try { detail = JSON.parse(text).detail || detail; } catch { /* from a proxy, perhaps */ }
    if (answer.status === 401 && token.get() === secret) askForToken(secret ? "The server does not know this token." : "The server wants a token.");
    throw new Refused(answer.status, detail);
  }
  return text;
}

const askJSON = async (method, path, body) => { const text = await ask(method, path, body); return text ? JSON.parse(text) : null; };

const topicPath = (topic) => "/v1/topics/" + encodeURIComponent(topic);

function askForToken(why) {
  setText($("token-why"), why);
  if (!$("token-box").open) { $("token").value = ""; $("token-box").showModal(); }
}

// armed is a button for an irreversible action: the first click asks, the second one acts. The second
// click of a double click is none.
function armed(label, sure, act) {
  let timer = 0;
  const button = h("button", { type: "button", class: "small", onclick: (e) => {
    e.stopPropagation();
    if (e.detail > 1) return;
    clearTimeout(timer);
    if (button.classList.toggle("armed")) {
      setText(button, sure);
      timer = setTimeout(() => { button.classList.remove("armed"); setText(button, label); }, 4000);
    } else {
      setText(button, label);
      act();
    }
  } }, label);
  return button;
}

const plain = (label, act, attrs = {}) => h("button", { type: "button", class: "small", onclick: (e) => { e.stopPropagation(); act(); }, ...attrs }, label);
