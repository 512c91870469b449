// An agent of the Vercel AI SDK over MCP servers. Arguments: servers, model, prompt.
import { readFileSync } from "node:fs";
import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as StdioTransport } from "@ai-sdk/mcp/mcp-stdio";
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { generateText, stepCountIs } from "ai";

const [servers, address, prompt] = process.argv.slice(2);
const provider = createOpenAICompatible({ name: "scripted", baseURL: `${address}/v1`, apiKey: "x" });
const clients = [];
const tools = {};
for (const entry of Object.values(JSON.parse(readFileSync(servers, "utf8")))) {
  const client = await createMCPClient({ transport: new StdioTransport(entry) });
  clients.push(client);
  Object.assign(tools, await client.tools());
}
const { text } = await generateText({
  model: provider("scripted"),
  tools,
  prompt,
  stopWhen: stepCountIs(10),
});
console.log(text);
await Promise.all(clients.map((client) => client.close()));
