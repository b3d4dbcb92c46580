// A client made with the official SDK that serves an MCP server over its connection: prints what was called as JSON.
// Arguments: the SDK's unstable module, the folder of the session, then the agent's command.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [sdk, cwd, program, ...words] = process.argv.slice(2);
const acp = await import(sdk);
const agent = spawn(program, words, { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const seen = { methods: [], arguments: [], outputs: [], progress: 0 };
const provider = new acp.McpOverAcpProvider();
const complete = { resultType: "complete", ttlMs: 0, cacheScope: "private" };

const handler = async ({ method, params, notify }) => {
  seen.methods.push(method);
  if (method === "server/discover") {
    const serverInfo = { name: "sails", version: "1" };
    return { result: { ...complete, supportedVersions: ["2026-07-28"], capabilities: { tools: {} }, serverInfo } };
  }
  if (method === "tools/list") {
    const inputSchema = { type: "object", properties: { ship: { type: "string" } }, required: ["ship"] };
    return { result: { ...complete, tools: [{ name: "count", description: "Counts sails.", inputSchema }] } };
  }
  if (method === "tools/call") {
    seen.arguments.push(params.arguments);
    const progressToken = params._meta?.progressToken;
    if (progressToken !== undefined) {
      await notify("notifications/progress", { progressToken, progress: 1, message: "looking up" });
    }
    return { result: { resultType: "complete", content: [{ type: "text", text: `${params.arguments.ship}: 7` }] } };
  }
  throw new acp.McpProtocolError(-32601, `no ${method}`);
};

const client = acp
  .client({ name: "test" })
  .onRequest(acp.methods.client.mcp.message, provider.handleRequest)
  .onNotification(acp.methods.client.session.update, ({ params: { update } }) => {
    if (JSON.stringify(update).includes("looking up")) seen.progress += 1;
    if (update.status === "completed") seen.outputs.push(JSON.stringify(update.content));
  });

await client.connectWith(stream, async (ctx) => {
  const started = await ctx.request(acp.methods.agent.initialize, {
    protocolVersion: acp.PROTOCOL_VERSION,
    clientCapabilities: {},
  });
  seen.offered = started.agentCapabilities.mcpCapabilities;
  const tools = provider.registerServer(ctx, { name: "ships", handler });
  const { sessionId } = await ctx.request(acp.methods.agent.session.new, { cwd, mcpServers: [tools.declaration] });
  const prompt = [{ type: "text", text: "Go" }];
  seen.stop = (await ctx.request(acp.methods.agent.session.prompt, { sessionId, prompt })).stopReason;
});
agent.stdin.end();
seen.code = await new Promise((resolve) => agent.once("exit", resolve));
console.log(JSON.stringify(seen));
process.exit(0);
