// The tasks of one topic, a page at a time.

const STATES = ["pending", "running", "done", "dead", "removed"];

function makeTasks(changed) {
  let topic = "", state = "pending", cursor = "", next = "", number = 0, asking = false;
  const body = $("tasks").tBodies[0], causes = makeCauses(clear, (key) => show(key));

  async function draw() {
    if (!topic) return;
    const mine = ++number, query = new URLSearchParams({ state, limit: "50" });
    $("first").disabled = !cursor;
    if (cursor) query.set("cursor", cursor);
    asking = true;
    let page;
    try {
      page = await askJSON("GET", `${topicPath(topic)}/tasks?${query}`);
    } catch (e) {
      if (mine !== number) return;
      asking = false;
      body.replaceChildren(empty(e.message));
      body.dataset.drawn = state;
      return;
    }
    if (mine !== number) return; // somebody has clicked meanwhile
    asking = false;
    next = page.next || "";
    $("next").disabled = !next;
    setText($("tasks-when"), untilNames[state]);
    body.replaceChildren(...(page.tasks.length ? page.tasks.map(row) : [empty(cursor ? "No more." : `No task is ${state}.`)]));
    body.dataset.drawn = state;
    offerAll(state === "dead" && page.tasks.length ? topic : "");
  }

  // offerAll has buttons for all dead tasks of a topic, or none. It keeps them: one may be armed.
  function offerAll(of) {
    const host = $("all-dead");
    if (host.dataset.of === of) return;
    host.dataset.of = of;
    host.replaceChildren(...(of ? [plain("Replay all", () => clear("replay")), armed("Drop all", "Really drop all?", () => clear("drop"))] : []));
  }

  const empty = (text) => h("tr", {}, h("td", { class: "empty", colspan: 7 }, text));

  const row = (task) => h("tr", { "data-id": task.id },
    h("td", { class: "id", title: task.id }, h("button", { type: "button", class: "link", onclick: () => show(task) }, task.id)),
    h("td", { title: date(task.until) }, distance(task.until || task.due)),
    h("td", { class: "n" }, String(task.attempts || 0)),
    h("td", { class: "error wide-only", title: task.error || false }, task.error || ""),
    h("td", { class: "error wide-only" }, task.node || ""),
    h("td", { class: "n faint" }, task.payload_bytes ? count(task.payload_bytes) + " B" : "–"),
    h("td", { class: "act" }, ...taskActions(task, act), plain("Look", () => show(task))));

  const show = (task) => look({ topic: task.topic, id: task.id }, act).catch((e) => say(task.topic, e.message, true));

  // say says what has come of a click, and of which topic if that is no longer the chosen one.
  function say(of, text, bad) {
    setText($("said"), of === topic ? text : `${of}: ${text}`);
    $("said").classList.toggle("bad", !!bad);
  }

  // act does something with one task, perhaps only in the state and version seen before, and
  // says the result.
  async function act(verb, key, only) {
    try {
      const body = verb === "move" ? { moves: [{ ...key, after: 0 }] } : { keys: [{ ...key, ...only }] };
      const answer = (await askJSON("POST", "/v1/tasks/" + verb, body)).answers[0];
      const done = { move: "runs now", replay: "runs again", remove: "is removed", drop: "is dropped" }[verb];
      say(key.topic, answer.error ? answer.error.detail : answer.changed ? `${key.id} ${done}.` : `${key.id} was ${answer.was}: nothing has changed.`, answer.error || !answer.changed);
      if ($("look").open && $("look-title").textContent === keyText(key)) await look(key, act, true);
    } catch (e) {
      say(key.topic, e.message, true);
    }
    changed();
    explain();
    await draw();
  }

  // clear replays or drops what is dead in the topic, perhaps of one cause only. Meanwhile somebody may
  // choose another topic.
  async function clear(verb, cause) {
    const of = topic, query = new URLSearchParams(cause ? { cause } : {}), path = `${topicPath(of)}/dead/${verb}?`;
    let total = 0, more = true;
    const cleared = () => `${plural(total, "task")} ${verb === "replay" ? "run again" : "dropped"}`;
    try {
      while (more) {
        const answer = await askJSON("POST", path + query);
        total += answer.changed;
        more = answer.more;
        if (more) query.set("cursor", answer.next);
        say(of, `${cleared()}${more ? " so far" : ""}.`);
      }
    } catch (e) {
      say(of, total ? `${cleared()}, and then: ${e.message}` : e.message, true);
    }
    if (of === topic) cursor = "";
    changed();
    explain();
    await draw();
  }

  // explain says why tasks are dead. It reads them all, so it is not repeated like the list.
  const explain = () => (state === "dead" ? causes.draw(topic) : causes.hide());

  function choose(name) {
    topic = name;
    body.replaceChildren();
    turn("pending");
  }

  // turn begins with the first page of a state.
  function turn(to) {
    state = to;
    cursor = next = "";
    say(topic, "");
    offerAll("");
    tabs(null);
    explain();
    draw();
  }

  // tabs has a button for each state, and keeps the buttons.
  function tabs(counts) {
    const host = $("tabs");
    if (!host.firstChild) {
      host.append(...STATES.map((name) => h("button", { type: "button", "data-state": name, onclick: () => turn(name) }, name, h("b"))));
    }
    for (const b of host.children) {
      b.setAttribute("aria-pressed", b.dataset.state === state);
      if (counts) setText(b.lastChild, count(counts[b.dataset.state]));
    }
  }

  $("next").addEventListener("click", () => { cursor = next; draw(); });
  $("first").addEventListener("click", () => { cursor = ""; draw(); });
  // The list draws itself again unless it is being asked for, or somebody is about to click in it.
  setInterval(() => {
    if (topic && !asking && !document.hidden && !$("token-box").open && !cursor && !body.querySelector(".armed") && !body.contains(document.activeElement) && !body.matches(":hover")) draw();
  }, 3000);
  return { choose, tabs };
}
