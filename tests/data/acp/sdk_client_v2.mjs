// A client of version 2 made with the official SDK: one conversation, whose outcome it prints as JSON.
// Arguments: the SDK's module, the folder of the session, then the agent's command.
import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";

const [sdk, cwd, program, ...words] = process.argv.slice(2);
const acp = await import(sdk);
const agent = spawn(program, words, { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout));
const seen = { text: "", calls: {}, users: [], states: [], output: "", asked: [] };
let idle = () => {};

const client = acp
  .client({ name: "test" })
  .onNotification(acp.methods.client.session.update, ({ params }) => {
    const { update } = params;
    if (update.sessionUpdate === "agent_message_chunk") seen.text += update.content.text;
    if (update.sessionUpdate === "user_message") seen.users.push(update.messageId);
    if (update.sessionUpdate === "terminal_output_chunk") seen.output += Buffer.from(update.data, "base64").toString();
    if (update.toolCallId) seen.calls[update.toolCallId] = update.status ?? seen.calls[update.toolCallId];
    if (update.sessionUpdate === "state_update") {
      seen.states.push(update.stopReason ?? update.state);
      if (update.state === "idle") idle();
    }
  })
  .onRequest(acp.methods.client.session.requestPermission, ({ params }) => {
    seen.asked.push([params.title, params.subject.type]);
    const option = params.options.find((each) => each.kind === "allow_once");
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  });

await client.connectWith(stream, async (ctx) => {
  const info = { name: "test", version: "1" };
  const first = await ctx.request(acp.methods.agent.initialize, { protocolVersion: acp.PROTOCOL_VERSION, info, capabilities: {} });
  seen.version = first.protocolVersion;
  const { sessionId } = await ctx.request(acp.methods.agent.session.new, { cwd });
  const prompt = [{ type: "text", text: "Please run `echo hello`" }];
  const run = async (during) => {
    const ended = new Promise((resolve) => (idle = resolve));
    const accepted = await ctx.request(acp.methods.agent.session.prompt, { sessionId, prompt });
    await during?.();
    await ended;
    return accepted.messageId;
  };
  seen.first = await run();
  seen.second = await run(() => ctx.notify(acp.methods.agent.session.cancel, { sessionId }));
  await ctx.request(acp.methods.agent.session.setConfigOption, { sessionId, configId: "mode", type: "id", value: "never" });
  await ctx.request(acp.methods.agent.session.close, { sessionId });
  seen.listed = await ctx.request(acp.methods.agent.session.list, { cwd });
  seen.states.push("resumed");
  await ctx.request(acp.methods.agent.session.resume, { sessionId, cwd, replayFrom: { type: "start" } });
  await ctx.request(acp.methods.agent.session.delete, { sessionId });
});
agent.stdin.end();
seen.code = await new Promise((resolve) => agent.once("exit", resolve));
console.log(JSON.stringify(seen));
process.exit(0);
