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
for (const [name, entry] of Object.entries(JSON.parse(readFileSync(servers, "utf8")))) {
  // Servers of the official Python SDK refuse the handshake after a discovery that took longer than
  // a second. So the discovery is the default, on, for the gateway only.
  const client = await createMCPClient({
    transport: new StdioTransport(entry),
    protocolVersionDiscovery: name === "shortlist",
  });
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
