// A server on the TypeScript SDK 2.x whose tool makes tasks (extension of 2026-07-28).
// Arguments: folder of the packages, folder of the tasks. A task is completed once `done` is there.
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const [packages, folder] = process.argv.slice(2);
const require = createRequire(join(packages, "program.js"));
const { Server } = require("@modelcontextprotocol/server");
const { serveStdio } = require("@modelcontextprotocol/server/stdio");
const z = require("zod");

const TASKS = "io.modelcontextprotocol/tasks";
const CAPABILITIES = "io.modelcontextprotocol/clientCapabilities";
const time = "2026-07-28T00:00:00Z";
const state = (taskId, status, more = {}) => ({
  ...{ taskId, status, createdAt: time, lastUpdatedAt: time, ttlMs: 60_000, pollIntervalMs: 50 },
  ...more,
});
const file = (name) => join(folder, name);
const result = (target) => ({ content: [{ type: "text", text: `built ${target}` }] });
const params = z.looseObject({ taskId: z.string() });
const build = {
  name: "build",
  description: "Builds a target of the project",
  inputSchema: { type: "object", properties: { target: { type: "string" } } },
};

serveStdio(() => {
  const options = { capabilities: { tools: {}, extensions: { [TASKS]: {} } } };
  const server = new Server({ name: "jobs", version: "1" }, options);
  server.setRequestHandler("tools/list", () => ({ tools: [build] }));
  server.setRequestHandler("tools/call", (request, context) => {
    const { target } = request.params.arguments;
    const { extensions } = context.mcpReq.envelope?.[CAPABILITIES] ?? {};
    if (!(TASKS in (extensions ?? {}))) return result(`${target} at once`);
    const taskId = randomUUID();
    writeFileSync(file(taskId), target);
    return { resultType: "task", ...state(taskId, "working") };
  });
  server.setRequestHandler("tasks/get", { params }, ({ taskId }) => {
    if (existsSync(file(`${taskId}.cancelled`))) return state(taskId, "cancelled");
    if (!existsSync(file("done"))) return state(taskId, "working");
    return state(taskId, "completed", { result: result(readFileSync(file(taskId), "utf8")) });
  });
  server.setRequestHandler("tasks/cancel", { params }, ({ taskId }) => {
    writeFileSync(file(`${taskId}.cancelled`), "");
    return {};
  });
  return server;
});
