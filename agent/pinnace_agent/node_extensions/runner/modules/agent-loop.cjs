/**
 * A loop of a model and tools in this process, as `pi-agent-core` has it: turns until nothing is owed. What it asks a model
 * goes through the function that it is given, by default through the agent, which has the keys.
 */

"use strict";

const { Batch } = require("./agent-calls.cjs");
const { EventStream } = require("./ai-events.cjs");
const { PI_ATTRIBUTION, mergeClientIdentity } = require("./ai-texts.cjs");
const { getCurrentTools, getToolStateChanges, normalizeContext, toToolDeclaration } = require("./ai-transcript.cjs");

const DEFAULT_AGENT_IDENTITY = { attribution: PI_ATTRIBUTION };

let ownStream;
/** What asks a model where a caller names nothing. */
function setDefaultStreamFn(stream) {
  ownStream = stream;
}
const defaultStream = () => ownStream ?? require("./ai-requests.cjs").streamSimple;

const withoutOff = (level) => (level === "off" ? undefined : level);
const some = async (messages) => (await messages?.()) ?? [];

// --- tools that the model knows --------------------------------------------------------------------

/** A system message with these changes of tools in place of its own. */
function changing({ toolsAdded: _added, toolsRemoved: _removed, ...message }, { toolsAdded = [], toolsRemoved = [] }) {
  return { ...message, ...(toolsAdded.length > 0 ? { toolsAdded } : {}), ...(toolsRemoved.length > 0 ? { toolsRemoved } : {}) };
}

/** Messages that come next, with a system message that says which tools there are, if the transcript says others. */
function declaring({ messages, tools = [] }, next) {
  const at = next.findLastIndex(({ role }) => role === "system");
  const given = next[at];
  const others = given ? next.with(at, changing(given, {})) : next;
  const changes = getToolStateChanges(getCurrentTools([...messages, ...others]), tools.map(toToolDeclaration));
  const isChange = changes.toolsAdded.length + changes.toolsRemoved.length > 0;
  if (given) {
    const isKept = !isChange && !given.toolsAdded?.length && !given.toolsRemoved?.length;
    return isKept ? next : next.with(at, changing(given, changes));
  }
  if (!isChange) return next;
  const first = next.findIndex(({ role }) => role !== "system");
  const message = changing({ role: "system", content: "", timestamp: Date.now() }, changes);
  return next.toSpliced(first === -1 ? next.length : first, 0, message);
}

// --- the loop --------------------------------------------------------------------------------------

class Run {
  #context;
  #config;
  #emit;
  #signal;
  #stream;
  #made = [];

  constructor(context, config, emit, signal, stream) {
    this.#context = context;
    this.#config = config;
    this.#emit = emit;
    this.#signal = signal;
    this.#stream = stream ?? defaultStream();
  }

  /** Begins with prompts, and with none goes on; returns the messages that it has made. */
  async go(prompts) {
    await this.#emit({ type: "agent_start" });
    await this.#emit({ type: "turn_start" });
    await this.#take(prompts);
    await this.#turns();
    await this.#emit({ type: "agent_end", messages: this.#made });
    return this.#made;
  }

  async #turns() {
    let waiting = await some(this.#config.getSteeringMessages);
    let turn;
    for (;;) {
      let before = [];
      if (turn) {
        const update = await this.#config.prepareNextTurn?.(turn);
        this.#adopt(update);
        before = update?.messages ?? [];
        // To prepare may take long; and a second time would deliver two where one at a time is wanted.
        if (waiting.length === 0) waiting = await some(this.#config.getSteeringMessages);
        await this.#emit({ type: "turn_start" });
      }
      await this.#take(declaring(this.#context, [...before, ...waiting]));
      const message = await this.#answer();
      const hasFailed = message.stopReason === "error" || message.stopReason === "aborted";
      const { messages: toolResults, isMoreOwed } = hasFailed ? { messages: [] } : await this.#calls(message);
      turn = { message, toolResults, context: this.#context, newMessages: this.#made };
      const decision = await this.#config.finishTurn?.(turn, this.#signal);
      await this.#emit({ type: "turn_end", message, toolResults });
      if (hasFailed || decision?.action === "end") return;
      waiting = await some(this.#config.getSteeringMessages);
      if (isMoreOwed || waiting.length > 0) continue;
      waiting = await some(this.#config.getFollowUpMessages);
      if (waiting.length === 0 && decision?.action !== "continue") return;
    }
  }

  async #take(messages) {
    for (const message of messages) {
      await this.#emit({ type: "message_start", message });
      await this.#emit({ type: "message_end", message });
      this.#context.messages.push(message);
      this.#made.push(message);
    }
  }

  #adopt(update) {
    if (!update) return;
    const { context, model, thinkingLevel } = update;
    this.#context = context ?? this.#context;
    const reasoning = thinkingLevel === undefined ? this.#config.reasoning : withoutOff(thinkingLevel);
    this.#config = { ...this.#config, model: model ?? this.#config.model, reasoning };
  }

  async #answer() {
    const level = this.#config.reasoning ?? "off";
    const given = { context: this.#context, model: this.#config.model, thinkingLevel: level };
    this.#adopt(await this.#config.prepareRequest?.(given, this.#signal));
    const message = await this.#streamed();
    this.#made.push(message);
    return message;
  }

  /** One answer of the model; its partial message is in the context meanwhile. */
  async #streamed() {
    const config = this.#config;
    const { messages } = this.#context;
    const shown = config.transformContext ? await config.transformContext(messages, this.#signal) : messages;
    const context = normalizeContext({ messages: await config.convertToLlm(shown) });
    const apiKey = (await config.getApiKey?.(config.model.provider)) || config.apiKey;
    const identity = mergeClientIdentity(DEFAULT_AGENT_IDENTITY, config.identity);
    const response = await this.#stream(config.model, context, { ...config, apiKey, identity, signal: this.#signal });
    let isShown = false;
    for await (const event of response) {
      if (event.type === "done" || event.type === "error") break;
      if (event.type === "start") messages.push(event.partial);
      else if (isShown) messages[messages.length - 1] = event.partial;
      else continue;
      const message = { ...event.partial };
      if (isShown) await this.#emit({ type: "message_update", assistantMessageEvent: event, message });
      else await this.#emit({ type: "message_start", message });
      isShown = true;
    }
    const message = Object.assign(await response.result(), { thinkingLevel: config.reasoning ?? "off" });
    if (isShown) messages[messages.length - 1] = message;
    else {
      messages.push(message);
      await this.#emit({ type: "message_start", message: { ...message } });
    }
    await this.#emit({ type: "message_end", message });
    return message;
  }

  async #calls(message) {
    const calls = message.content.filter(({ type }) => type === "toolCall");
    if (calls.length === 0) return { messages: [], isMoreOwed: false };
    const context = this.#context;
    const around = { tools: context.tools ?? [], hooks: this.#config, assistantMessage: message, context, signal: this.#signal };
    const batch = new Batch(around, this.#emit);
    const isCut = message.stopReason === "length";
    const isSequential = this.#config.toolExecution === "sequential";
    const { messages, terminate } = await (isCut ? batch.refuse(calls) : batch.perform(calls, isSequential));
    context.messages.push(...messages);
    this.#made.push(...messages);
    return { messages, isMoreOwed: !terminate };
  }
}

// --- as pi-agent-core has it -----------------------------------------------------------------------

async function runAgentLoop(prompts, context, config, emit, signal, stream) {
  const own = { ...context, messages: [...context.messages] };
  return new Run(own, config, emit, signal, stream).go(declaring(context, prompts));
}

/** As a copy but for the messages, which the run appends to. */
async function runAgentLoopContinue(context, config, emit, signal, stream) {
  checkContinuable(context);
  return new Run({ ...context }, config, emit, signal, stream).go([]);
}

function checkContinuable({ messages }) {
  if (messages.length === 0) throw new Error("Cannot continue: no messages in context");
  if (messages.at(-1).role === "assistant") throw new Error("Cannot continue from message role: assistant");
}

/** The events of a run as a stream. A run that fails ends it with what there is, and its error is reported. */
function streamed(run) {
  const stream = new EventStream(({ type }) => type === "agent_end", ({ messages }) => messages);
  run((event) => stream.push(event)).then(
    (messages) => stream.end(messages),
    (error) => {
      stream.end([]);
      throw error;
    },
  );
  return stream;
}

const agentLoop = (prompts, context, config, signal, stream) =>
  streamed((emit) => runAgentLoop(prompts, context, config, emit, signal, stream));

function agentLoopContinue(context, config, signal, stream) {
  checkContinuable(context);
  return streamed((emit) => runAgentLoopContinue(context, config, emit, signal, stream));
}

module.exports = {
  DEFAULT_AGENT_IDENTITY, setDefaultStreamFn, defaultStream, withoutOff, agentLoop, agentLoopContinue, runAgentLoop,
  runAgentLoopContinue,
};
