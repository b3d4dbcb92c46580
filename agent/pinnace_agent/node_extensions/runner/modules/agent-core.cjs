/** `@earendil-works/pi-agent-core`: an agent in this process, with the transcript, the queues and the tools of who makes it. */

"use strict";

const { runToolCall } = require("./agent-calls.cjs");
const loop = require("./agent-loop.cjs");
const transcript = require("./ai-transcript.cjs");

const OF_MODELS = new Set(["system", "user", "assistant", "toolResult"]);
const UNKNOWN_MODEL = {
  id: "unknown", name: "unknown", api: "unknown", provider: "unknown", baseUrl: "", reasoning: false, input: [],
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 }, contextWindow: 0, maxTokens: 0,
};
const noUsage = () => ({
  input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0,
  cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 },
});

class State {
  #messages;
  #tools;
  isStreaming = false;
  streamingMessage = undefined;
  pendingToolCalls = new Set();
  errorMessage = undefined;

  constructor({ systemPrompt, model = UNKNOWN_MODEL, thinkingLevel = "off", tools = [], messages = [] } = {}) {
    this.model = model;
    this.thinkingLevel = thinkingLevel;
    this.#tools = [...tools];
    const first = transcript.createInitialSystemMessage(systemPrompt, tools.map(transcript.toToolDeclaration));
    this.#messages = first && messages[0]?.role !== "system" ? [first, ...messages] : [...messages];
  }

  get systemPrompt() {
    return transcript.getCurrentSystemPrompt(this.#messages);
  }

  get tools() {
    return this.#tools;
  }

  set tools(tools) {
    this.#tools = [...tools];
  }

  get messages() {
    return this.#messages;
  }

  set messages(messages) {
    this.#messages = [...messages];
  }
}

class Queue {
  #messages = [];

  constructor(mode = "one-at-a-time") {
    this.mode = mode;
  }

  get length() {
    return this.#messages.length;
  }

  add(message) {
    this.#messages.push(message);
  }

  next() {
    return this.#messages.slice(0, this.mode === "all" ? this.#messages.length : 1);
  }

  take() {
    return this.#messages.splice(0, this.next().length);
  }

  clear() {
    this.#messages = [];
  }
}

// What a run takes from the agent as it is then.
const OF_RUNS = [
  ...["convertToLlm", "transformContext", "getApiKey", "onPayload", "onResponse", "onProviderStreamEvent", "beforeToolCall"],
  ...["afterToolCall", "finishTurn", "prepareRequest", "sessionId", "thinkingBudgets", "transport", "maxRetryDelayMs"],
  ...["toolExecution", "identity"],
];

class Agent {
  #state;
  #listeners = new Set();
  #steering;
  #followUps;
  #run;

  constructor(options) {
    const { initialState, streamFn, steeringMode, followUpMode, ...others } = options ?? {};
    this.#state = new State(initialState);
    this.#steering = new Queue(steeringMode);
    this.#followUps = new Queue(followUpMode);
    this.streamFunction = streamFn ?? loop.defaultStream();
    for (const name of [...OF_RUNS, "prepareNextTurn", "prepareNextTurnWithContext"]) this[name] = others[name];
    this.convertToLlm ??= (messages) => messages.filter(({ role }) => OF_MODELS.has(role));
    this.transport ??= "auto";
    this.toolExecution ??= "parallel";
  }

  /** Calls a listener with each event, and waits for it; returns what ends that. */
  subscribe(listener) {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  get state() {
    return this.#state;
  }

  get steeringMode() {
    return this.#steering.mode;
  }

  set steeringMode(mode) {
    this.#steering.mode = mode;
  }

  get followUpMode() {
    return this.#followUps.mode;
  }

  set followUpMode(mode) {
    this.#followUps.mode = mode;
  }

  steer(message) {
    this.#steering.add(message);
  }

  followUp(message) {
    this.#followUps.add(message);
  }

  clearSteeringQueue() {
    this.#steering.clear();
  }

  clearFollowUpQueue() {
    this.#followUps.clear();
  }

  clearAllQueues() {
    this.#steering.clear();
    this.#followUps.clear();
  }

  hasQueuedMessages() {
    return this.#steering.length + this.#followUps.length > 0;
  }

  peekQueuedMessages() {
    return (this.#steering.length > 0 ? this.#steering : this.#followUps).next();
  }

  get signal() {
    return this.#run?.control.signal;
  }

  abort() {
    this.#run?.control.abort();
  }

  /** Resolves when the run and all who listen to its end are done. */
  async waitForIdle() {
    await this.#run?.ended.promise;
  }

  /** Forgets the conversation and the queues, and keeps the prompt and the tools. */
  reset() {
    this.#refuseDuring("Agent is already processing. Wait for completion before resetting.");
    const first = transcript.getCurrentSystemMessage(this.#state.messages);
    Object.assign(this.#state, { messages: first ? [first] : [], errorMessage: undefined });
    this.#settle();
    this.clearAllQueues();
  }

  async prompt(input, images = []) {
    const busy = "Agent is already processing a prompt. Use steer() or followUp() to queue messages, or wait for completion.";
    this.#refuseDuring(busy);
    const written = () => ({ role: "user", content: [{ type: "text", text: input }, ...images], timestamp: Date.now() });
    await this.#prompted(typeof input === "string" ? [written()] : [input].flat());
  }

  /** Goes on behind a message of the user or a result of a tool; behind an answer, with what waits. */
  async continue() {
    this.#refuseDuring("Agent is already processing. Wait for completion before continuing.");
    const { messages } = this.#state;
    if (messages.every(({ role }) => role === "system")) throw new Error("No messages to continue from");
    if (messages.at(-1).role !== "assistant") {
      await this.#lifecycle((...of) => loop.runAgentLoopContinue(...of), true);
      return;
    }
    const steering = this.#steering.take();
    const waiting = steering.length > 0 ? steering : this.#followUps.take();
    if (waiting.length === 0) throw new Error("Cannot continue from message role: assistant");
    await this.#prompted(waiting, steering.length === 0);
  }

  #refuseDuring(text) {
    if (this.#run) throw new Error(text);
  }

  #prompted(messages, isSteeringTaken = true) {
    return this.#lifecycle((...of) => loop.runAgentLoop(messages, ...of), isSteeringTaken);
  }

  /** A run: whatever fails in it is an answer that has failed. */
  async #lifecycle(begin, isSteeringTaken) {
    const control = new AbortController();
    this.#run = { control, ended: Promise.withResolvers() };
    Object.assign(this.#state, { isStreaming: true, streamingMessage: undefined, errorMessage: undefined });
    const context = { messages: [...this.#state.messages], tools: [...this.#state.tools] };
    const emit = (event) => this.#handle(event);
    try {
      try {
        await begin(context, this.#config(isSteeringTaken), emit, control.signal, this.streamFunction);
      } catch (error) {
        await this.#fail(error, control.signal.aborted);
      }
    } finally {
      this.#settle();
      this.#run.ended.resolve();
      this.#run = undefined;
    }
  }

  #config(isSteeringTaken) {
    const { model, thinkingLevel } = this.#state;
    let takesSteering = isSteeringTaken;
    const hasNext = this.prepareNextTurnWithContext || this.prepareNextTurn;
    return {
      ...Object.fromEntries(OF_RUNS.map((name) => [name, this[name]])), model, reasoning: loop.withoutOff(thinkingLevel),
      prepareNextTurn: hasNext && (async (turn) => this.#prepareNext(turn)),
      getSteeringMessages: async () => {
        const messages = takesSteering ? this.#steering.take() : [];
        takesSteering = true;
        return messages;
      },
      getFollowUpMessages: async () => this.#followUps.take(),
    };
  }

  #prepareNext(turn) {
    if (this.prepareNextTurnWithContext) return this.prepareNextTurnWithContext(turn, this.signal);
    return this.prepareNextTurn?.(this.signal);
  }

  async #fail(error, isAborted) {
    const { api, provider, id } = this.#state.model;
    const message = {
      role: "assistant", content: [{ type: "text", text: "" }], api, provider, model: id, usage: noUsage(),
      stopReason: isAborted ? "aborted" : "error", errorMessage: error instanceof Error ? error.message : String(error),
      timestamp: Date.now(),
    };
    await this.#handle({ type: "message_start", message });
    await this.#handle({ type: "message_end", message });
    await this.#handle({ type: "turn_end", message, toolResults: [] });
    await this.#handle({ type: "agent_end", messages: [message] });
  }

  #settle() {
    Object.assign(this.#state, { isStreaming: false, streamingMessage: undefined, pendingToolCalls: new Set() });
  }

  async #handle(event) {
    const signal = this.signal;
    this.#follow(event);
    if (!signal) throw new Error("Agent listener invoked outside active run");
    for (const listener of this.#listeners) await listener(event, signal);
  }

  /** What an event changes of the state. */
  #follow({ type, message, toolCallId }) {
    const state = this.#state;
    switch (type) {
      case "message_start":
      case "message_update":
        state.streamingMessage = message;
        break;
      case "message_end":
        state.streamingMessage = undefined;
        state.messages.push(message);
        break;
      case "tool_execution_start":
        state.pendingToolCalls = new Set([...state.pendingToolCalls, toolCallId]);
        break;
      case "tool_execution_end":
        state.pendingToolCalls = new Set([...state.pendingToolCalls].filter((each) => each !== toolCallId));
        break;
      case "turn_end":
        if (message.role === "assistant" && message.errorMessage) state.errorMessage = message.errorMessage;
        break;
      case "agent_end":
        state.streamingMessage = undefined;
    }
  }
}

const { DEFAULT_AGENT_IDENTITY, setDefaultStreamFn, agentLoop, agentLoopContinue, runAgentLoop, runAgentLoopContinue } = loop;
module.exports = {
  Agent, DEFAULT_AGENT_IDENTITY, setDefaultStreamFn, agentLoop, agentLoopContinue, runAgentLoop, runAgentLoopContinue, runToolCall,
};
