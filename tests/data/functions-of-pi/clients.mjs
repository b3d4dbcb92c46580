/** Clients of agents, with a program that answers what it was asked, and decisions about trust. */

import fs from "node:fs";
import path from "node:path";

const PROGRAM = `
import readline from "node:readline";
const write = (record) => process.stdout.write(JSON.stringify(record) + "\\n");
const data = (asked) => ({
  asked, disposition: "of " + asked.type, models: ["m"], levels: ["l"], messages: ["e"], text: "t", commands: ["c"],
});
for await (const line of readline.createInterface({ input: process.stdin })) {
  const { id, ...asked } = JSON.parse(line);
  if (asked.type === "get_tree") write({ type: "response", id, command: asked.type, success: false, error: "there is no tree" });
  else write({ type: "response", id, command: asked.type, success: true, data: data(asked) });
  if (asked.type === "prompt") for (const type of ["agent_start", "agent_settled"]) write({ type, words: process.argv.slice(2), variable: process.env.OF_TEST });
}
`;

const CALLS = {
  prompt: ["hello", [{ type: "image" }], "steer"], steer: ["s"], followUp: ["f", []], abort: [], clearQueue: [], newSession: ["/parent"], getState: [],
  setModel: ["p", "m"], cycleModel: [], getAvailableModels: [], setThinkingLevel: ["low"], cycleThinkingLevel: [], getAvailableThinkingLevels: [],
  setSteeringMode: ["all"], setFollowUpMode: ["all"], compact: ["words"], setAutoCompaction: [true], setAutoRetry: [false], abortRetry: [],
  bash: ["ls"], abortBash: [], getSessionStats: [], exportHtml: ["/f"], switchSession: ["/s"], fork: ["e"], clone: [], getForkMessages: [],
  getEntries: ["since"], getTree: [], getLastAssistantText: [], setSessionName: ["n"], getMessages: [], getCommands: [],
};

export const cases = {
  methods: async (pi, { cwd }) => {
    const cliPath = path.join(cwd, "program.mjs");
    fs.writeFileSync(cliPath, PROGRAM);
    const client = new pi.RpcClient({ cliPath, cwd, provider: "p", model: "m", args: ["--x"], env: { OF_TEST: "set" } });
    const early = await client.getState().catch((error) => error.message);
    await client.start();
    const again = await client.start().catch((error) => error.message);
    const answers = {};
    for (const [name, values] of Object.entries(CALLS)) answers[name] = await client[name](...values).catch((error) => error.message);
    const events = await client.promptAndWait("go");
    const heard = [];
    const stop = client.onEvent((event) => heard.push(event.type));
    await Promise.all([client.waitForIdle(), client.prompt("more")]);
    stop();
    await client.promptAndWait("unheard");
    const stderr = client.getStderr();
    await client.stop();
    return [early, again, answers, events, heard, stderr, await client.getState().then(() => "answered", () => "refused")];
  },

  trust: (pi, { cwd }) => {
    const real = fs.realpathSync(cwd);
    const decisions = { [real]: true, [path.join(real, "no")]: false, [path.join(real, "none")]: null };
    fs.writeFileSync(path.join(cwd, "trust.json"), JSON.stringify(decisions));
    const store = new pi.ProjectTrustStore(cwd);
    return ["", "no", "none", "no/below", "/"].flatMap((name) => [store.get(path.resolve(real, name)), store.getEntry(path.resolve(real, name))]);
  },

  /** Warnings and errors are in each program's words. */
  models: async (pi) => {
    const model = (provider, id, name = id) => ({ provider, id, name, api: "a", baseUrl: "", input: ["text"], reasoning: false, contextWindow: 9, maxTokens: 9, cost: {} });
    const models = [
      model("one", "alpha"), model("one", "alpha-20250101"), model("one", "beta-2"), model("two", "beta-2"), model("two", "gamma:x"), model("two", "Named", "The Delta"),
    ];
    const runtime = { getModels: () => models, getAvailable: async () => models.slice(0, 5), hasConfiguredAuth: (provider) => provider === "two" };
    const named = (each) => each && `${each.provider}/${each.id}`;
    const asked = [
      {}, { cliModel: "alpha" }, { cliModel: "ALPHA" }, { cliModel: "one/alpha" }, { cliModel: "alp" }, { cliModel: "beta-2" }, { cliModel: "one/beta-2" },
      { cliModel: "beta-2", cliProvider: "one" }, { cliModel: "gamma:x" }, { cliModel: "alpha:high" }, { cliModel: "delta" }, { cliModel: "absent" },
      { cliModel: "new-model", cliProvider: "two" }, { cliModel: "alpha", cliProvider: "three" }, { cliModel: "beta-2", inlineApiKey: true },
      { cliModel: "alpha", cliThinking: "low" },
    ].map((each) => {
      const found = pi.resolveCliModel({ ...each, modelRuntime: runtime });
      return [named(found.model), models.includes(found.model), found.thinkingLevel, Boolean(found.warning), Boolean(found.error)];
    });
    const scopes = [];
    for (const patterns of [[], ["alpha"], ["one/*"], ["*:high"], ["gamma:x", "alpha:low"], ["absent", "alpha", "alpha"], ["alpha:odd"], ["be*"]]) {
      const { scopedModels, diagnostics } = await pi.resolveModelScopeWithDiagnostics(patterns, runtime);
      scopes.push([scopedModels.map((each) => [named(each.model), models.includes(each.model), each.thinkingLevel]), diagnostics.map((each) => [each.code, each.pattern])]);
    }
    return [asked, scopes];
  },
};
