// One task, in a box of its own.

// exact writes a payload as it is. Numbers beyond 2^53 keep their digits if the browser tells
// them.
function exact(text) {
  try {
    const task = JSON.parse(text, (_, value, context) =>
      (typeof value === "number" && context && context.source && JSON.rawJSON ? JSON.rawJSON(context.source) : value)).tasks[0];
    return JSON.stringify(task.payload, null, 2);
  } catch {
    return JSON.stringify(JSON.parse(text).tasks[0].payload, null, 2);
  }
}

const date = (text) => (text ? new Date(text).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "medium" }) : "");

// distance is how far a time is from now.
function distance(text) {
  if (!text) return "–";
  const sec = (new Date(text) - Date.now()) / 1000;
  return sec >= 0 ? "in " + tenths(sec) : tenths(-sec) + " ago";
}

const untilNames = { pending: "next", running: "lease ends", done: "done", dead: "dead since", removed: "removed" };

const keyText = (key) => `${key.topic}/${key.id}`; // no topic has a slash

let looks = 0; // the last look makes the answers to earlier ones void

// look shows a task in the box. If it is to show it again, it leaves a closed box closed.
async function look(key, act, again) {
  const mine = ++looks, text = await ask("POST", "/v1/tasks/get", { keys: [key] }), task = JSON.parse(text).tasks[0];
  if (mine !== looks || again && !$("look").open) return;
  setText($("look-title"), keyText(key));
  drawFacts($("look-facts"), [
    ["state", task.state], ["created", date(task.created)], ["due", date(task.due)], [untilNames[task.state], date(task.until)],
    ["attempts", task.attempts || 0], ["calls", task.calls || 0], ["failures", task.failures || 0], ["trace", (task.trace || {}).traceparent],
    ["retries", task.retries], ["backoff", task.backoff], ["timeout", task.timeout], ["not after", date(task.not_after)],
    ["metadata", Object.entries(task.metadata || {}).map((e) => e.join("=")).join(", ")], ["version", task.version], ["node", task.node], ["callback", callbackText(task.callback)],
  ]);
  $("look-error").hidden = !task.error;
  setText($("look-error"), task.error || "");
  const encoded = task.payload_base64;
  setText($("look-kind"), task.payload !== undefined ? "JSON" : encoded ? "Base64, since it is no JSON" : "");
  setText($("look-payload"), task.payload !== undefined ? exact(text) : encoded || "(none)");
  $("look-actions").replaceChildren(...taskActions({ ...task, ...key }, act));
  if (!again) $("look-attempts").tBodies[0].replaceChildren(); // those of the task before
  if (!$("look").open) $("look").showModal();
  $("look").dataset.state = task.state;
  const rows = await attempts(key);
  if (mine === looks) $("look-attempts").tBodies[0].replaceChildren(...rows);
}

async function attempts(key) {
  const line = (text) => [h("tr", {}, h("td", { class: "empty" }, text))];
  if (key.id === "/") return line("The attempts of a task of that id can't be asked for."); // it fits into no path
  try {
    const all = (await askJSON("GET", `${topicPath(key.topic)}/tasks/${encodeURIComponent(key.id)}/executions?limit=50`)).executions;
    return all.length ? all.map((e) => h("tr", {}, h("td", { class: "faint" }, date(e.started)), h("td", {}, `attempt ${e.attempt}`), h("td", {}, e.as),
      h("td", { class: "n faint" }, e.took), h("td", { class: "faint" }, e.node), h("td", { class: "error", title: e.error || false }, e.error || ""))) : line("None has ended.");
  } catch (e) {
    return line(e.message);
  }
}

// taskActions are the buttons for a task in its state.
function taskActions(task, act) {
  const key = { topic: task.topic, id: task.id }, buttons = [];
  if (task.state === "pending") buttons.push(plain("Run now", () => act("move", key)));
  if (task.state === "dead") buttons.push(plain("Replay", () => act("replay", key)), armed("Drop", "Really drop?", () => act("drop", key, { version: task.version })));
  if (task.state === "pending" || task.state === "running") buttons.push(armed("Remove", "Really remove?", () => act("remove", key)));
  return buttons;
}
