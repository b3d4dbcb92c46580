/**
 * `RpcClient` of pi: an agent in a process of its own, in mode rpc, by the commands of the protocol.
 *
 * Without `cliPath` it is an agent of pinnace with the rights of the one whose extension this is; with it, the program in
 * JavaScript that it names, as in pi. It ends with `stop`, and with this process.
 */

"use strict";

const { Process, refuseDepth } = require("./agent-session.cjs");
const { now } = require("../wire.cjs");

const ANSWER_MS = 30_000;
const IDLE_MS = 60_000;

/** Of each method, the command, the fields that its arguments are, and which part of the answer it returns (all: `true`). */
const COMMANDS = {
  prompt: ["prompt", ["message", "images", "streamingBehavior"], "disposition"],
  steer: ["steer", ["message", "images"], "disposition"],
  followUp: ["follow_up", ["message", "images"], "disposition"],
  abort: ["abort", []],
  clearQueue: ["clear_queue", [], true],
  newSession: ["new_session", ["parentSession"], true],
  getState: ["get_state", [], true],
  setModel: ["set_model", ["provider", "modelId"], true],
  cycleModel: ["cycle_model", [], true],
  getAvailableModels: ["get_available_models", [], "models"],
  setThinkingLevel: ["set_thinking_level", ["level"]],
  cycleThinkingLevel: ["cycle_thinking_level", [], true],
  getAvailableThinkingLevels: ["get_available_thinking_levels", [], "levels"],
  setSteeringMode: ["set_steering_mode", ["mode"]],
  setFollowUpMode: ["set_follow_up_mode", ["mode"]],
  compact: ["compact", ["customInstructions"], true],
  setAutoCompaction: ["set_auto_compaction", ["enabled"]],
  setAutoRetry: ["set_auto_retry", ["enabled"]],
  abortRetry: ["abort_retry", []],
  bash: ["bash", ["command"], true],
  abortBash: ["abort_bash", []],
  getSessionStats: ["get_session_stats", [], true],
  exportHtml: ["export_html", ["outputPath"], true],
  switchSession: ["switch_session", ["sessionPath"], true],
  fork: ["fork", ["entryId"], true],
  clone: ["clone", [], true],
  getForkMessages: ["get_fork_messages", [], "messages"],
  getEntries: ["get_entries", ["since"], true],
  getTree: ["get_tree", [], true],
  getLastAssistantText: ["get_last_assistant_text", [], "text"],
  setSessionName: ["set_session_name", ["name"]],
  getMessages: ["get_messages", [], "messages"],
  getCommands: ["get_commands", [], "commands"],
};

class RpcClient {
  #process;
  #listeners = new Set();

  constructor(options = {}) {
    this.options = options;
  }

  /** Start the agent; resolves when it answers. */
  async start() {
    if (this.#process !== undefined) throw new Error("Client already started");
    const { cliPath, cwd, env = {}, provider, model, args = [] } = this.options;
    refuseDepth("RpcClient");
    const command = cliPath === undefined ? now(undefined, "agent_command", cwd ?? null) : ["node", cliPath, "--mode", "rpc"];
    const words = [...(provider ? ["--provider", provider] : []), ...(model ? ["--model", model] : []), ...args];
    const live = new Process([...command, ...words], cwd, env, (record) => this.#take(record), () => {});
    this.#process = live;
    try {
      await within(live.ask("get_state"), ANSWER_MS, () => `the agent does not answer: ${live.stderr}`);
    } catch (error) {
      this.#process = undefined;
      void live.end();
      throw error;
    }
  }

  /** End the agent, in order. */
  async stop() {
    const live = this.#process;
    this.#process = undefined;
    await live?.end();
  }

  onEvent(listener) {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  getStderr() { return this.#process?.stderr ?? ""; }

  /** Resolves with the next end of a run; rejects after a time. */
  async waitForIdle(timeout = IDLE_MS) { await this.collectEvents(timeout); }

  /** The records until the next end of a run; rejects after a time. */
  async collectEvents(timeout = IDLE_MS) {
    const events = [];
    const { promise, resolve } = Promise.withResolvers();
    const stop = this.onEvent((event) => {
      events.push(event);
      if (event.type === "agent_settled") resolve(events);
    });
    try {
      return await within(promise, timeout, () => `Timeout waiting for the agent to settle. Stderr: ${this.getStderr()}`);
    } finally {
      stop();
    }
  }

  async promptAndWait(message, images, timeout = IDLE_MS) {
    const events = this.collectEvents(timeout);
    events.catch(() => {}); // a prompt that is refused is what is reported
    await this.prompt(message, images);
    return await events;
  }

  async send(type, fields) {
    if (this.#process === undefined) throw new Error("Client not started");
    const late = () => `Timeout waiting for response to ${type}. Stderr: ${this.getStderr()}`;
    return await within(this.#process.ask(type, fields), ANSWER_MS, late);
  }

  #take(record) {
    for (const listener of [...this.#listeners]) listener(record);
  }
}

for (const [name, [type, fields, part]] of Object.entries(COMMANDS)) {
  RpcClient.prototype[name] = async function (...values) {
    const data = await this.send(type, Object.fromEntries(fields.map((field, place) => [field, values[place]])));
    return part === undefined ? undefined : part === true ? data : data[part];
  };
}

/** What a promise comes to; after some time it rejects with a text that is made then. */
async function within(promise, milliseconds, late) {
  const { promise: over, reject } = Promise.withResolvers();
  const timer = setTimeout(() => reject(new Error(late())), milliseconds);
  try {
    return await Promise.race([promise, over]);
  } finally {
    clearTimeout(timer);
  }
}

module.exports = { RpcClient };
