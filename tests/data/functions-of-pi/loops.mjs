/** Runs of the loop and the agent of `pi-agent-core`, each generated from a number: what they show, ask and come to. */

import { createHash } from "node:crypto";

const MODEL = { id: "m", name: "m", api: "a", provider: "p", baseUrl: "", input: ["text"], reasoning: true, contextWindow: 9, maxTokens: 9, cost: {} };
const SCHEMA = { type: "object", properties: { n: { type: "number" } }, required: ["n"] };
const LEVELS = ["off", "low", "high"];

function dice(seed) {
  let state = seed * 7919 + 17;
  const below = (limit) => {
    state = (state * 1103515245 + 12345) % 2 ** 31;
    return Math.floor(state / 2 ** 16) % limit;
  };
  return { below, one: (values) => values[below(values.length)], often: (of) => below(of) === 0 };
}

const text = (words) => ({ type: "text", text: words });
const user = (words) => ({ role: "user", content: [text(words)], timestamp: 1 });

/** An answer of a model that is shown in pieces, or at once. */
async function* pieces(message, isShown) {
  const partial = { ...message, content: [] };
  if (isShown) {
    yield { type: "start", partial };
    for (const [contentIndex, block] of message.content.entries()) {
      const kind = block.type === "toolCall" ? "toolcall" : "text";
      yield { type: `${kind}_start`, contentIndex, partial: { ...partial, content: message.content.slice(0, contentIndex) } };
      yield { type: `${kind}_end`, contentIndex, partial: { ...partial, content: message.content.slice(0, contentIndex + 1) } };
    }
  }
  const hasFailed = ["error", "aborted"].includes(message.stopReason);
  if (hasFailed) yield { type: "error", reason: message.stopReason, error: message };
  else yield { type: "done", reason: message.stopReason, message };
}

/** Without what differs from run to run, and with names in one order. */
function plain(value) {
  return JSON.parse(
    JSON.stringify(value, (name, each) => {
      if (name === "durationMs") return "measured";
      if (name === "timestamp") return each > 2 ? "now" : each;
      if (each instanceof Set) return [...each];
      const isObject = typeof each === "object" && each !== null && !Array.isArray(each);
      return isObject ? Object.fromEntries(Object.entries(each).sort(([one], [other]) => (one < other ? -1 : 1))) : each;
    }) ?? "null",
  );
}

/** A world for a run: its model, tools and hooks, and the record of what happens. */
function world(seed) {
  const { below, one, often } = dice(seed);
  const record = [];
  const note = (...values) => record.push(plain(values));
  let former; // what the tool was called with before, when it could report
  const tool = (name, more, execute) => ({ name, label: name, description: name, parameters: SCHEMA, ...more, execute });
  const tools = [
    tool("plain", {}, async (id, args, _signal, onUpdate) => {
      note("plain", id, args);
      former?.({ content: [text("late")], details: id });
      former = onUpdate;
      onUpdate({ content: [text("half")], details: 0 });
      return { content: [text(`done ${args.n}`)], details: { id }, ...(often(3) ? { structuredContent: { n: 1 } } : {}) };
    }),
    tool("failing", {}, async () => {
      throw new Error("it failed");
    }),
    tool("wrong", {}, async () => ({ content: [text("wrong")], details: 1, isError: true })),
    tool("ending", often(2) ? { executionMode: "sequential" } : {}, async () => ({ content: [text("end")], details: {}, terminate: true })),
    tool("odd", { prepareArguments: (args) => ({ n: 1, ...args }) }, async () => ({ details: 2 })),
  ];
  let calls = 0;
  const call = () => ({
    type: "toolCall", id: `c${calls++}`, name: one(["plain", "plain", "failing", "wrong", "ending", "odd", "absent"]),
    arguments: one([{ n: 1 }, { n: 2 }, {}, { n: "3" }]),
  });
  const answer = () => {
    const content = [text(`t${below(9)}`), ...Array.from({ length: one([0, 0, 1, 1, 2, 3]) }, call)];
    const stopReason = one(["stop", "stop", "stop", "toolUse", "toolUse", "length", often(3) ? "error" : "stop", often(4) ? "aborted" : "stop"]);
    const isFailed = ["error", "aborted"].includes(stopReason);
    return { role: "assistant", content, api: "a", provider: "p", model: "m", usage: { input: 1 }, stopReason, timestamp: 2, ...(isFailed ? { errorMessage: "down" } : {}) };
  };
  let requests = 0;
  const streamFn = async (model, context, { reasoning, apiKey, sessionId, identity, signal }) => {
    requests += 1;
    note("request", model.id, context, { reasoning, apiKey, sessionId, identity: Object.keys(identity), isAborted: signal?.aborted });
    if (requests > 7) return over({ ...answer(), content: [text("last")], stopReason: "stop" });
    if (often(15)) throw new Error("no stream");
    return over(answer());
  };
  const over = (message) => Object.assign(pieces(message, !often(4)), { result: async () => message });
  const hooks = {
    beforeToolCall: often(2) ? async ({ toolCall, args }) => {
      note("before", toolCall.id, args);
      return one([undefined, undefined, { block: true }, { block: true, reason: "no", terminate: often(2) }]);
    } : undefined,
    afterToolCall: often(2) ? async ({ toolCall, result, isError }) => {
      note("after", toolCall.id, result, isError);
      if (often(6)) throw new Error("after failed");
      return one([undefined, { content: [text("other")] }, { details: "d", isError: true }, { terminate: true, structuredContent: { k: 1 } }]);
    } : undefined,
    finishTurn: often(2) ? ({ message, toolResults, newMessages }) => {
      note("finish", message.stopReason, toolResults.length, newMessages.length);
      return one([undefined, undefined, { action: "continue" }, { action: "end" }]);
    } : undefined,
    prepareRequest: often(2) ? ({ context, model, thinkingLevel }) => {
      note("prepare", context.messages.length, model.id, thinkingLevel);
      return one([undefined, { thinkingLevel: one(LEVELS) }, { model: { ...MODEL, id: "other" } }]);
    } : undefined,
    transformContext: often(3) ? async (messages) => messages.slice(-3) : undefined,
    getApiKey: often(2) ? () => one([undefined, "key"]) : undefined,
    toolExecution: one([undefined, "parallel", "sequential"]),
  };
  const next = often(2) ? (turn) => {
    note("next", turn?.message?.stopReason);
    return one([undefined, { thinkingLevel: one(LEVELS) }, { messages: [user("prepared")] }, { messages: [{ role: "system", content: "changed", toolsAdded: [] , timestamp: 1 }] }]);
  } : undefined;
  return { below, one, often, record, note, tools: tools.filter(() => !often(6)), streamFn, hooks, next };
}

/** What a part of a run comes to. */
async function outcome(run) {
  try {
    return { value: plain((await run()) ?? null) };
  } catch (error) {
    return { error: error.message };
  }
}

async function loop(pi, seed) {
  const { below, one, often, record, note, tools, streamFn, hooks, next } = world(seed);
  const control = new AbortController();
  const waiting = { steering: 0, following: 0 };
  const queued = (kind) => async () => {
    const isThere = waiting[kind] < 2 && often(2);
    if (isThere) waiting[kind] += 1;
    return isThere ? [user(`${kind} ${waiting[kind]}`)] : [];
  };
  const config = {
    ...hooks, model: MODEL, reasoning: one([undefined, "low"]), sessionId: "s", prepareNextTurn: next,
    convertToLlm: (messages) => messages.filter(({ role }) => role !== "note"),
    getSteeringMessages: often(3) ? undefined : queued("steering"), getFollowUpMessages: often(3) ? undefined : queued("following"),
  };
  const messages = one([[], [user("before")], [{ role: "system", content: "p", toolsAdded: [], timestamp: 0 }, user("before")], [user("b"), { ...user("a"), role: "assistant" }]]);
  const context = { messages, tools: often(5) ? undefined : tools };
  const abortsAt = below(40);
  let count = 0;
  const emit = async (event) => {
    note(event);
    count += 1;
    if (count === abortsAt) control.abort();
  };
  const isGoingOn = often(3);
  const prompts = [...(often(4) ? [{ role: "system", content: "new", timestamp: 1 }] : []), user("go"), { role: "note", content: "x" }];
  const of = [context, config, emit, control.signal, streamFn];
  const end = await outcome(() => (isGoingOn ? pi.runAgentLoopContinue(...of) : pi.runAgentLoop(prompts, ...of)));
  const events = [];
  const streamed = await outcome(async () => {
    const other = world(seed + 1000);
    const settings = { ...other.hooks, model: MODEL, convertToLlm: (all) => all };
    // A stream that can't be had would leave the original's events without an end.
    const asked = async (...values) => {
      for (;;) {
        const stream = await other.streamFn(...values).catch(() => undefined);
        if (stream) return stream;
      }
    };
    const given = [{ messages: [user("x")], tools: other.tools }, settings, undefined, asked];
    const stream = isGoingOn ? pi.agentLoopContinue(...given) : pi.agentLoop([user("y")], ...given);
    for await (const event of stream) events.push(event.type);
    return stream.result();
  });
  return [record, end, plain(context.messages), events, streamed];
}

async function agent(pi, seed) {
  const { below, one, often, record, note, tools, streamFn, hooks, next } = world(seed);
  const made = new pi.Agent({
    ...hooks, initialState: { systemPrompt: one(["", "prompt"]), model: MODEL, thinkingLevel: one(LEVELS), tools, messages: one([[], [user("old")]]) },
    streamFn, steeringMode: one([undefined, "all"]), followUpMode: one([undefined, "all"]), sessionId: "s",
    [one(["prepareNextTurn", "prepareNextTurnWithContext"])]: next && ((turn) => next(turn?.message ? turn : undefined)),
  });
  let count = 0;
  const shown = () => {
    const { systemPrompt, model, thinkingLevel, isStreaming, streamingMessage, pendingToolCalls, errorMessage, messages } = made.state;
    return [systemPrompt, model.id, thinkingLevel, isStreaming, streamingMessage, pendingToolCalls, errorMessage, messages.length, made.state.tools.length];
  };
  const end = made.subscribe(async (event, signal) => {
    note(event.type, event.message?.role, shown(), signal === made.signal, made.hasQueuedMessages(), made.peekQueuedMessages());
    count += 1;
    if (count === 3) note(await outcome(() => made.prompt("during")), await outcome(() => made.continue()), await outcome(async () => made.reset()));
    if (count < 25 && often(9)) made.steer(user(`steered ${count}`));
    if (count < 25 && often(9)) made.followUp(user(`followed ${count}`));
    if (often(70)) made.abort();
    if (often(90)) throw new Error("a listener failed");
  });
  for (let step = 0; step < 4; step++) {
    const deed = one(["prompt", "prompt", "message", "continue", "queue", "tools", "reset", "level"]);
    if (deed === "prompt") note(await outcome(() => made.prompt("hello", often(3) ? [{ type: "image", data: "", mimeType: "image/png" }] : undefined)));
    if (deed === "message") note(await outcome(() => made.prompt(one([user("one"), [user("two"), user("three")]]))));
    if (deed === "continue") note(await outcome(() => made.continue()));
    if (deed === "queue") [made.steer(user("s1")), made.steer(user("s2")), made.followUp(user("f1"))];
    if (deed === "tools") made.state.tools = tools.slice(below(3));
    if (deed === "reset") note(await outcome(async () => made.reset()));
    if (deed === "level") made.state.thinkingLevel = one(LEVELS);
    await made.waitForIdle();
    note(deed, shown());
  }
  end();
  made.clearAllQueues();
  return [record, plain(made.state.messages), made.steeringMode, made.followUpMode, made.hasQueuedMessages(), made.signal === undefined];
}

async function call(pi, seed) {
  const { one, record, note, tools, hooks } = world(seed);
  const outcomes = [];
  for (const name of ["plain", "failing", "wrong", "ending", "odd", "absent"]) {
    const toolCall = { type: "toolCall", id: name, name, arguments: one([{ n: 1 }, {}, { n: "x" }]) };
    const more = { tools, assistantMessage: {}, context: { messages: [] }, onUpdate: (partial) => note("update", partial) };
    outcomes.push(plain(await pi.runToolCall(toolCall, { ...more, ...hooks })));
  }
  return [record, outcomes];
}

const KINDS = { loop, agent, call };

/** A run of one kind. */
export const outcomeOf = (pi, kind, seed) => KINDS[kind](pi, seed);

/** What stands for the outcomes of all kinds of runs for numbers from 0. */
export async function digests(pi, count) {
  const found = {};
  for (const kind of Object.keys(KINDS)) {
    found[kind] = [];
    for (let seed = 0; seed < count; seed++) {
      const text = JSON.stringify(await outcomeOf(pi, kind, seed));
      found[kind].push(createHash("sha256").update(text).digest("hex").slice(0, 16));
    }
  }
  return found;
}
