/**
 * `createAgentSession` of pi: an agent that an extension starts and works with, as a process of its own.
 *
 * It is a child of this process, in mode rpc, with the rights of the agent whose extension this is (`agent_command`), and ends
 * with this process or with `dispose`. It starts with the first thing that it is asked to do. What pi shows without waiting is
 * kept here by its records: messages, state, usage. Its questions go to the user.
 */

"use strict";

const { spawn } = require("node:child_process");
const fs = require("node:fs");
const net = require("node:net");
const path = require("node:path");
const inMemory = new Set(); // processes whose sessions no file keeps
process.on("exit", () => inMemory.forEach((child) => child.kill("SIGKILL"))); // before their folders are removed
const { SessionManager, makeFolder, removeFolder } = require("./session-manager.cjs");
const { wordsOf } = require("./resource-loader.cjs");
const { SOCKET, write } = require("../session-tools.cjs");
const { CALL, eachLine, now, send, errorOf } = require("../wire.cjs");

const END_MS = 2000; // for an orderly end, in which the session is saved
const STDERR_CHARS = 4096;
const LEVELS = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];
const DEPTH = "PINNACE_SUBAGENT_DEPTH"; // how many agents are above this one
const MOST_DEPTH = 4; // an extension that makes a session wherever it is loaded would never come to an end

const depth = () => Number(process.env[DEPTH] ?? 0);

function refuseDepth(name) {
  if (!(depth() < MOST_DEPTH)) throw new Error(`${name}: ${MOST_DEPTH} agents are above this one already (${DEPTH})`);
}

/** The process of an agent, and its answers by the ids of commands. */
class Process {
  constructor(command, cwd, more, onRecord, whenEnded) {
    const env = { ...process.env, [DEPTH]: String(depth() + 1), ...more };
    this.child = spawn(command[0], command.slice(1), { cwd, env, stdio: ["pipe", "pipe", "pipe"] });
    this.asked = new Map();
    this.numbers = 0;
    this.stderr = "";
    this.ended = new Promise((resolve) => {
      this.child.on("error", (error) => resolve(error.message));
      this.child.on("close", () => resolve(this.stderr.trim().split("\n").slice(-2).join("; ") || "it has ended"));
    });
    this.ended.then((reason) => {
      this.reason = reason;
      for (const { reject } of this.asked.values()) reject(new Error(`the agent of this session has ended: ${reason}`));
      this.asked.clear();
      whenEnded();
    });
    eachLine(this.child.stdout, (record) => (record.type === "response" ? this.answer(record) : onRecord(record)));
    this.child.stderr.on("data", (chunk) => (this.stderr = (this.stderr + chunk).slice(-STDERR_CHARS)));
    this.child.stdin.on("error", () => {}); // it has ended, which `ended` says
  }

  answer({ id, success, error, errorCode, data }) {
    const waiting = this.asked.get(id);
    this.asked.delete(id);
    if (success) waiting?.onAnswer?.(data ?? {});
    if (success) waiting?.resolve(data ?? {});
    else if (errorCode !== "shutting_down") waiting?.reject(new Error(error));
    else void this.ended.then((reason) => waiting?.reject(new Error(`the agent of this session has ended: ${reason}`)));
  }

  /** Ask, and wait for the answer; `onAnswer` takes it before any record behind it is taken. */
  ask(type, fields = {}, onAnswer = undefined) {
    if (this.reason !== undefined) return Promise.reject(new Error(`the agent of this session has ended: ${this.reason}`));
    const id = `session-${++this.numbers}`;
    const { promise, resolve, reject } = Promise.withResolvers();
    this.asked.set(id, { resolve, reject, onAnswer });
    this.send({ id, type, ...fields });
    return promise;
  }

  send(record) {
    if (this.reason === undefined) this.child.stdin.write(`${JSON.stringify(record)}\n`);
  }

  /** End it in order, by the end of its stdin, or else by a signal. */
  async end() {
    this.child.stdin.end();
    const late = setTimeout(() => this.child.kill("SIGKILL"), END_MS);
    await this.ended;
    clearTimeout(late);
  }
}

class AgentSession {
  constructor(options) {
    this.who = { extension: CALL.getStore()?.extension ?? null, context: null };
    this.options = options;
    this.sessionManager = options.sessionManager ?? SessionManager.create(options.cwd ?? now(this.who, "ctx.cwd"));
    if (options.cwd !== undefined) this.sessionManager.moveTo(options.cwd);
    this.cwd = this.sessionManager.getCwd(); // where the agent works, which its rights depend on
    this.settingsManager = options.settingsManager;
    this.resourceLoader = options.resourceLoader;
    this.listeners = new Set();
    this.process = undefined;
    this.tools = undefined; // what serves those of the extension
    this.texts = undefined; // the folder for what the process reads
    this.approval = undefined; // of tools, as the process has it
    this.isDisposed = false;
    const found = this.sessionManager.buildSessionContext();
    this.known = {
      messages: found.messages, model: options.model, thinkingLevel: options.thinkingLevel ?? found.thinkingLevel, tools: [],
      isStreaming: false, isCompacting: false, isRetrying: false, steering: [], followUp: [], name: this.sessionManager.getSessionName(),
      systemPrompt: this.resourceLoader?.getSystemPrompt?.() ?? "",
    };
    this.seed = undefined; // messages that replace those of the session, until it is started
    this.settled = []; // who waits for the end of a run
    this.agent = agentOf(this);
  }

  // --- the process -------------------------------------------------------------------------------------

  /** The process, started with the first use. Throws if it can't be, or has ended. */
  live() {
    if (this.isDisposed) throw new Error("this session is disposed");
    this.process ??= this.start();
    return this.process;
  }

  start() {
    const { model, thinkingLevel, tools, excludeTools, noTools } = this.options;
    const command = now(this.who, "agent_command", this.cwd);
    if (this.seed !== undefined) for (const each of this.seed) this.sessionManager.appendMessage(each);
    this.texts = makeFolder();
    let count = 0;
    const words = wordsOf(this.resourceLoader, (text) => {
      const file = path.join(this.texts, `${++count}.md`);
      fs.writeFileSync(file, text, { mode: 0o600 });
      return file;
    });
    if (model) words.push("--provider", model.provider, "--model", model.id);
    if (thinkingLevel) words.push("--thinking", thinkingLevel);
    if (this.scopedModels.length > 0) words.push("--models", this.scopedModels.map(patternOf).join(","));
    if (tools) words.push(...(tools.length > 0 ? ["--tools", tools.join(",")] : ["--no-tools"]));
    else if (noTools) words.push(noTools === "all" ? "--no-tools" : "--no-builtin-tools");
    if (excludeTools?.length > 0) words.push("--exclude-tools", excludeTools.join(","));
    words.push("--session", this.sessionManager.written());
    const more = {};
    if (this.options.customTools?.length > 0) {
      words.push("-e", require.resolve("../session-tools.cjs"));
      more[SOCKET] = path.join(this.texts, "tools");
      this.tools = serveTools(this.options.customTools, more[SOCKET], { cwd: this.cwd });
    }
    this.approval = approvalOf(command);
    const started = new Process([...command, ...words], this.cwd, more, (record) => this.take(record), () => this.ended());
    if (!this.sessionManager.isPersisted()) inMemory.add(started.child);
    return started;
  }

  ended() {
    this.known.isStreaming = false;
    this.settle();
    inMemory.delete(this.process.child);
    this.tools?.close();
    removeFolder(this.texts);
    this.sessionManager.release();
  }

  settle() {
    for (const resolve of this.settled.splice(0)) resolve();
  }

  /** Have an agent that works follow the user's approval of tools, as it is when it gets something to do. */
  async ask(type, fields) {
    const isStarted = this.process !== undefined;
    const live = this.live();
    if (isStarted) {
      const approval = approvalOf(now(this.who, "agent_command", this.cwd));
      if (approval !== this.approval) await live.ask("set_tool_approval", { mode: approval });
      this.approval = approval;
    }
    return await live.ask(type, fields);
  }

  take(record) {
    const { known } = this;
    switch (record.type) {
      case "extension_ui_request":
        void this.question(record);
        return;
      case "agent_start":
        known.isStreaming = true;
        break;
      case "message_end":
        known.messages.push(record.message);
        break;
      case "queue_update":
        Object.assign(known, { steering: record.steering ?? [], followUp: record.followUp ?? [] });
        break;
      case "compaction_start":
        known.isCompacting = true;
        break;
      case "compaction_end":
        known.isCompacting = false;
        if (record.result) known.messages = this.sessionManager.buildSessionContext().messages;
        break;
      case "auto_retry_start":
      case "auto_retry_end":
        known.isRetrying = record.type === "auto_retry_start";
        break;
      case "agent_settled":
        known.isStreaming = false;
        break;
    }
    for (const listener of [...this.listeners]) {
      try {
        listener(record);
      } catch (error) {
        send({ type: "stray", event: "session", extension: this.who.extension, error: errorOf(error) });
      }
    }
    if (record.type === "agent_settled" || (record.type === "compaction_end" && !known.isStreaming)) this.settle();
  }

  /** Put a question of the agent to the user; what shows something is left out. */
  async question({ id, method, title, message, options, placeholder, prefill }) {
    const ui = require("../ui.cjs").userInterfaceOf(this.who);
    const dialogs = {
      select: () => ui.select(title, options), confirm: () => ui.confirm(title, message),
      input: () => ui.input(title, placeholder), editor: () => ui.editor(title, prefill),
    };
    if (!(method in dialogs)) return;
    const value = await dialogs[method]().catch(() => undefined);
    const answer = value === undefined ? { cancelled: true } : method === "confirm" ? { confirmed: value } : { value };
    this.process.send({ type: "extension_ui_response", id, ...answer });
  }

  // --- what it is asked to do --------------------------------------------------------------------------

  /** Give it a prompt; resolves when its run has ended. */
  async prompt(text, { images, streamingBehavior } = {}) {
    const wasStreaming = this.known.isStreaming;
    await this.ask("prompt", { message: text, ...(images && { images }), ...(streamingBehavior && { streamingBehavior }) });
    if (!wasStreaming) await this.waitForIdle();
  }
  async steer(text, images) { await this.ask("steer", { message: text, ...(images && { images }) }); }
  async followUp(text, images) { await this.ask("follow_up", { message: text, ...(images && { images }) }); }

  async sendUserMessage(content, { deliverAs } = {}) {
    const blocks = typeof content === "string" ? [{ type: "text", text: content }] : content;
    const images = blocks.filter((each) => each.type === "image");
    const text = blocks.flatMap((each) => (each.type === "text" ? [each.text] : [])).join("\n");
    await this.prompt(text, { ...(images.length > 0 && { images }), ...(deliverAs && { streamingBehavior: deliverAs }) });
  }

  /** Wait until nothing runs; at once if it was never started. */
  async waitForIdle() {
    if (this.process === undefined || this.process.reason !== undefined) return;
    const { promise, resolve } = Promise.withResolvers();
    await this.process.ask("get_state", {}, ({ isStreaming, isCompacting }) => {
      if (isStreaming || isCompacting) this.settled.push(resolve);
      else resolve();
    });
    await promise;
    if (this.process.reason !== undefined && !this.isDisposed) throw new Error(`the agent of this session has ended: ${this.process.reason}`);
  }

  async abort() {
    if (this.process !== undefined && this.process.reason === undefined) await this.process.ask("abort");
    await this.waitForIdle();
  }

  compact(instructions) { return this.ask("compact", instructions ? { customInstructions: instructions } : {}); }
  abortCompaction() { this.post("abort"); }
  abortRetry() { this.post("abort_retry"); }

  async setModel(model) {
    if (this.process === undefined) this.options = { ...this.options, model };
    else await this.ask("set_model", { provider: model.provider, modelId: model.id });
    this.known.model = model;
  }
  setThinkingLevel(level) {
    if (this.process === undefined) this.options = { ...this.options, thinkingLevel: level };
    else this.post("set_thinking_level", { level });
    this.known.thinkingLevel = level;
  }
  setSessionName(name) {
    if (this.process === undefined) this.sessionManager.appendSessionInfo(name);
    else this.post("set_session_name", { name });
    this.known.name = name;
  }
  setAutoCompactionEnabled(enabled) { this.post("set_auto_compaction", { enabled }); }
  setAutoRetryEnabled(enabled) { this.post("set_auto_retry", { enabled }); }
  setSteeringMode(mode) { this.post("set_steering_mode", { mode }); }
  setFollowUpMode(mode) { this.post("set_follow_up_mode", { mode }); }

  /** Ask for something that shows nothing here; a failure is reported as an error of the extension. */
  post(type, fields) {
    this.ask(type, fields).catch((error) => send({ type: "stray", event: "session", extension: this.who.extension, error: errorOf(error) }));
  }

  /** Its extensions run in its own process. */
  async bindExtensions() {}

  /** End it. Its session is saved where a file keeps it. */
  dispose() {
    if (this.isDisposed) return;
    this.isDisposed = true;
    this.listeners.clear();
    void this.process?.end();
  }

  subscribe(listener) {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }

  // --- what is read without waiting --------------------------------------------------------------------

  get state() { return this.agent.state; }
  get messages() { return this.known.messages; }
  get model() { return this.known.model; }
  get thinkingLevel() { return this.known.thinkingLevel; }
  get systemPrompt() { return this.known.systemPrompt; }
  get scopedModels() { return this.options.scopedModels ?? []; }
  get modelRuntime() { return new (require("../models.cjs").ModelRuntime)(undefined, this.who); }
  get modelRegistry() { return require("../models.cjs").modelsOf(this.who); }
  get isStreaming() { return this.known.isStreaming; }
  get isCompacting() { return this.known.isCompacting; }
  get isRetrying() { return this.known.isRetrying; }
  get isIdle() { return !(this.isStreaming || this.isCompacting || this.isRetrying); }
  get sessionId() { return this.sessionManager.getSessionId(); }
  get sessionFile() { return this.sessionManager.getSessionFile(); }
  get sessionName() { return this.known.name; }
  get pendingMessageCount() { return this.known.steering.length + this.known.followUp.length; }
  getSteeringMessages() { return this.known.steering; }
  getFollowUpMessages() { return this.known.followUp; }
  getActiveToolNames() { return this.options.tools ?? []; }
  getAvailableThinkingLevels() { return this.model?.reasoning ? LEVELS.filter((each) => this.model.thinkingLevelMap?.[each] !== null) : ["off"]; }

  getLastAssistantText() {
    const last = this.messages.findLast((each) => each.role === "assistant");
    return last?.content.flatMap((each) => (each.type === "text" ? [each.text] : [])).join("") || undefined;
  }

  getSessionStats() {
    const of = (role) => this.messages.filter((each) => each.role === role);
    const sum = (value) => of("assistant").reduce((total, each) => total + (value(each.usage ?? {}) ?? 0), 0);
    const tokens = Object.fromEntries(["input", "output", "cacheRead", "cacheWrite"].map((kind) => [kind, sum((usage) => usage[kind])]));
    const calls = of("assistant").flatMap((each) => each.content.filter((block) => block.type === "toolCall"));
    return {
      sessionFile: this.sessionFile, sessionId: this.sessionId, userMessages: of("user").length, assistantMessages: of("assistant").length,
      toolCalls: calls.length, toolResults: of("toolResult").length, totalMessages: this.messages.length,
      tokens: { ...tokens, total: Object.values(tokens).reduce((total, each) => total + each, 0) }, cost: sum((usage) => usage.cost?.total),
      contextUsage: this.getContextUsage(),
    };
  }

  /** By the last answer: what it was given and what it has said. */
  getContextUsage() {
    const contextWindow = this.model?.contextWindow;
    if (!contextWindow) return undefined;
    const usage = this.messages.findLast((each) => each.role === "assistant" && each.usage)?.usage;
    const tokens = usage === undefined ? 0 : usage.input + usage.output + usage.cacheRead + usage.cacheWrite;
    return { tokens, contextWindow, percent: (tokens / contextWindow) * 100 };
  }
}

/** A model in the words of `--models`, with its thinking level if it has one. */
const patternOf = ({ model, thinkingLevel }) => `${model.provider}/${model.id}${thinkingLevel ? `:${thinkingLevel}` : ""}`;

/** Serve tools to the agent of a session, whose calls have a `ctx` with no more than its folder. */
function serveTools(tools, socket, ctx) {
  const byName = new Map(tools.map((tool) => [tool.name, tool]));
  const server = net.createServer((stream) => {
    const calls = new Map();
    stream.on("error", () => {}); // its agent has ended
    stream.on("close", () => calls.forEach((controller) => controller.abort()));
    write(stream, { tools: tools.map((tool) => Object.fromEntries(Object.entries(tool).filter(([, value]) => typeof value !== "function"))) });
    eachLine(stream, async ({ call, name, id, params, abort }) => {
      if (abort !== undefined) return calls.get(abort)?.abort();
      const controller = new AbortController();
      calls.set(call, controller);
      const onUpdate = (update) => write(stream, { call, update });
      try {
        write(stream, { call, result: await byName.get(name).execute(id, params, controller.signal, onUpdate, ctx) });
      } catch (error) {
        write(stream, { call, error: errorOf(error).message });
      } finally {
        calls.delete(call);
      }
    });
  });
  server.on("error", (error) => send({ type: "stray", event: "session", extension: null, error: errorOf(error) }));
  server.listen(socket);
  server.unref();
  return server;
}

/** `session.agent`: the state of the conversation, whose messages may be replaced before it begins. */
function agentOf(session) {
  const state = {
    get messages() { return session.messages; },
    set messages(messages) {
      if (session.process !== undefined || session.sessionManager.getEntryCount() > 0) {
        throw new Error("messages of a session can be set before it has begun, and not here");
      }
      session.seed = messages;
      session.known.messages = [...messages];
    },
    get model() { return session.model; },
    get thinkingLevel() { return session.thinkingLevel; },
    get systemPrompt() { return session.systemPrompt; },
    get isStreaming() { return session.isStreaming; },
    get tools() { return session.getActiveToolNames().map((name) => ({ name })); },
  };
  return {
    state,
    abort: () => void session.abort(),
    waitForIdle: () => session.waitForIdle(),
    subscribe: (listener) => session.subscribe(listener),
    get sessionId() { return session.sessionId; },
  };
}

/** Start a session for an extension; see pi. What it can't be given is refused by name. */
async function createAgentSession(options = {}) {
  const { ModelRuntime } = require("../models.cjs");
  if (options.modelRuntime !== undefined && !(options.modelRuntime instanceof ModelRuntime)) {
    throw new Error("modelRuntime of createAgentSession must be a ModelRuntime of pinnace, which has the models and keys of the agent");
  }
  if (!(options.scopedModels ?? []).every((each) => each?.model?.provider && each.model.id)) {
    throw new Error("scopedModels of createAgentSession must be a list of { model, thinkingLevel }");
  }
  refuseDepth("createAgentSession");
  if (options.sessionManager !== undefined && !(options.sessionManager instanceof SessionManager)) {
    throw new Error("sessionManager of createAgentSession must be a SessionManager");
  }
  const session = new AgentSession(options);
  const guarded = new Proxy(session, {
    get(target, member) {
      const value = Reflect.get(target, member);
      if (member in target || typeof member === "symbol" || member === "then") return typeof value === "function" ? value.bind(target) : value;
      throw new Error(`${String(member)} of AgentSession is not available in pinnace; see docs/typescript-extensions.md`);
    },
  });
  const extensionsResult = options.resourceLoader?.getExtensions?.() ?? { extensions: [], errors: [], runtime: {} };
  return { session: guarded, extensionsResult };
}

/** The mode of approval in the words of a command line. */
const approvalOf = (command) => command[command.indexOf("--tool-approval") + 1];

module.exports = { createAgentSession, AgentSession, Process, refuseDepth };
