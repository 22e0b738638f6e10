import assert from "node:assert/strict";
import { test } from "node:test";
import { timeoutd } from "./index.js";

const client = timeoutd(process.env.TIMEOUTD_URL!, process.env.TIMEOUTD_TOKEN);
const topic = "typescript";

test("a task is set, moved, pulled and settled", async () => {
  const made = await client.PUT("/v1/topics/{topic}", { params: { path: { topic } }, body: { pull: true, retries: -1 } });
  assert.equal(made.error, undefined);
  const path = { topic, id: "a/b ü" };
  const set = await client.PUT("/v1/topics/{topic}/tasks/{id}", { params: { path }, body: { after: "1h", payload: { n: 1 }, metadata: { customer: "7" } } });
  assert.equal(set.response.status, 201);
  assert.equal(set.data?.was, "none");
  const waiting = await client.GET("/v1/topics/{topic}/tasks", { params: { path: { topic }, query: { "metadata[]": ["customer=7"] } } });
  assert.deepEqual(waiting.data?.tasks?.map((task) => task.id), [path.id]);
  const moved = await client.POST("/v1/topics/{topic}/tasks/{id}/move", { params: { path }, body: { after: 0 } });
  assert.equal(moved.data?.was, "pending");

  const pulled = await client.POST("/v1/topics/{topic}/pull", { params: { path: { topic } }, body: { max: 10, wait: "20s" } });
  assert.equal(pulled.data?.tasks.length, 1);
  const [task] = pulled.data!.tasks;
  assert.equal(task.id, path.id);
  assert.deepEqual(task.payload, { n: 1 });
  const told = await client.POST("/v1/feedback", { body: { token: task.token } });
  assert.equal(told.data?.settled, true);
  const gone = await client.GET("/v1/topics/{topic}/tasks/{id}", { params: { path } });
  assert.equal(gone.response.status, 404);
});

test("a task is removed", async () => {
  const path = { topic, id: "removed" };
  await client.PUT("/v1/topics/{topic}/tasks/{id}", { params: { path }, body: { after: "1h" } });
  const removed = await client.DELETE("/v1/topics/{topic}/tasks/{id}", { params: { path } });
  assert.equal(removed.data?.was, "pending");
});

test("a refusal names the value and the limit", async () => {
  const refused = await client.PUT("/v1/topics/{topic}", { params: { path: { topic } }, body: { retries: 10_000_000 } });
  assert.equal(refused.response.status, 400);
  assert.match(refused.error!.detail, /10000000.*1000000/);
});
