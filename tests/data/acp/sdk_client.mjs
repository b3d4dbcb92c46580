// A client made with the official SDK: one conversation, whose outcome it prints as JSON.
// Arguments: the SDK's module, the folder of the session, then the agent's command.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [sdk, cwd, program, ...words] = process.argv.slice(2);
const acp = await import(sdk);
const agent = spawn(program, words, { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const seen = { text: "", calls: {}, asked: 0 };

const client = acp
  .client({ name: "test" })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    const { update } = params;
    if (update.sessionUpdate === "agent_message_chunk") seen.text += update.content.text;
    if (update.toolCallId) seen.calls[update.toolCallId] = update.status ?? seen.calls[update.toolCallId];
  })
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
    seen.asked += 1;
    const option = params.options.find((each) => each.kind === "allow_once");
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  });

await client.connectWith(stream, async (ctx) => {
  await ctx.request(acp.methods.agent.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
  const { sessionId } = await ctx.request(acp.methods.agent.session.new, { cwd, mcpServers: [] });
  const prompt = [{ type: "text", text: "Please run `echo hello`" }];
  seen.first = await ctx.request(acp.methods.agent.session.prompt, { sessionId, prompt });
  const second = ctx.request(acp.methods.agent.session.prompt, { sessionId, prompt });
  await ctx.notify(acp.methods.agent.session.cancel, { sessionId });
  seen.second = await second;
  seen.listed = await ctx.request(acp.methods.agent.session.list, { cwd });
  await ctx.request(acp.methods.agent.session.close, { sessionId });
});
agent.stdin.end();
seen.code = await new Promise((resolve) => agent.once("exit", resolve));
console.log(JSON.stringify(seen));
process.exit(0);
