// Clients on the TypeScript SDK 2.x and 1.x that call a tool whose server makes a task of the call.
// Arguments: folder of the packages, address of the gateway, id of a task. It prints JSON: what
// each of them gets.
import { createRequire } from "node:module";
import { join } from "node:path";

const [packages, address, taskId] = process.argv.slice(2);
const require = createRequire(join(packages, "program.js"));
const v2 = require("@modelcontextprotocol/client");
const v1 = {
  ...require("@modelcontextprotocol/sdk/client/index.js"),
  ...require("@modelcontextprotocol/sdk/client/streamableHttp.js"),
};
const z = require("zod");

const call = { name: "call_tool", arguments: { name: "jobs/build", arguments: { target: "docs" } } };
const modern = { versionNegotiation: { mode: { pin: "2026-07-28" } } };
const takesTasks = { capabilities: { extensions: { "io.modelcontextprotocol/tasks": {} } } };
const textOf = (result) => result.content.map((part) => part.text).join("");

async function outcome(sdk, options, use) {
  const client = new sdk.Client({ name: "test", version: "1" }, options);
  try {
    await client.connect(new sdk.StreamableHTTPClientTransport(new URL(address)));
    return await use(client);
  } catch (error) {
    return { error: error.message, code: error.code };
  } finally {
    await client.close();
  }
}

const request = { method: "tasks/get", params: { taskId } };
const outcomes = {
  v1: await outcome(v1, {}, async (client) => textOf(await client.callTool(call))),
  v2: await outcome(v2, modern, async (client) => textOf(await client.callTool(call))),
  v2_task: await outcome(v2, { ...modern, ...takesTasks }, (client) => client.callTool(call)),
  v2_state: await outcome(v2, { ...modern, ...takesTasks }, (client) =>
    client.request(request, z.looseObject({})),
  ),
};
console.log(JSON.stringify(outcomes));
