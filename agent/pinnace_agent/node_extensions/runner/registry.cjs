/** The extensions of this process and what each has registered; `CALLABLE` calls it, one function for each kind of call. */

"use strict";

const { atRetirement } = require("./retiring.cjs");
const { ask, now, post, send } = require("./wire.cjs");

const extensions = new Map(); // of the session
const retired = new Map(); // of those before it, until no function of theirs runs

atRetirement(() => {
  for (const [number, extension] of extensions) retired.set(number, extension);
  extensions.clear();
});

// With the first call that has one: what extensions register while they load needs none.
const contextOf = (...values) => require("./context.cjs").contextOf(...values);

/** One extension: the number is the agent's. */
class Extension {
  constructor(number, path) {
    this.number = number;
    this.path = path;
    this.handlers = new Map(); // by number
    this.tools = new Map();
    this.commands = new Map();
    this.shortcuts = new Map();
    this.providers = new Map();
    this.messageRenderers = new Map();
    this.entryRenderers = new Map();
    this.toolResolvers = []; // of `registerToolRenderer`
    this.markdownTransformer = undefined;
    this.kept = new Map(); // callbacks that the agent may call, by number
    this.numbers = 0;
  }

  /** Keep a function for the agent; returns its number. */
  keep(callback) {
    this.kept.set(++this.numbers, callback);
    return this.numbers;
  }
}

function addExtension(number, path) {
  const extension = new Extension(number, path);
  extensions.set(number, extension);
  return extension;
}

/** All of the session. */
const loaded = () => extensions.values();

/** Drop extensions of a session that has ended. */
function forgetExtensions(numbers) {
  for (const number of numbers) retired.delete(number);
}

function extensionOf(number) {
  const extension = extensions.get(number) ?? retired.get(number);
  if (!extension) throw new Error(`there is no extension ${number} in this process`);
  return extension;
}

function registered(registry, key, what) {
  const found = registry.get(key);
  if (found === undefined) throw new Error(`${what} is not registered by the extension that was started again`);
  return found;
}

// Fields of events that handlers may change in place.
const CHANGEABLE = {
  tool_call: "input",
  context: "messages",
  context_with_system: "messages",
  before_provider_headers: "headers",
  before_provider_request: "payload",
  before_agent_start: "systemPromptOptions",
};

async function handler(extension, { number, event, context }, call) {
  const handle = registered(extension.handlers, number, `handler ${number} of ${event.type}`);
  const field = CHANGEABLE[event.type];
  const before = field === undefined ? undefined : JSON.stringify(event[field]);
  adapt(event, call);
  const ctx = contextOf(extension, context, call);
  let result = await handle(event, ctx);
  if (result?.operations && event.type === "user_bash") {
    result = { operations: extension.keep(result.operations) };
  }
  const answer = { result: result ?? null };
  if (field !== undefined && JSON.stringify(event[field]) !== before) answer.changed = event[field];
  return answer;
}

/** Give an event the members that do not travel. */
function adapt(event, call) {
  switch (event.type) {
    case "session_before_compact": {
      event.signal = call.controller.signal;
      const files = event.preparation.fileOps ?? {};
      event.preparation.fileOps = {
        read: new Set(files.read), written: new Set(), edited: new Set(files.modified),
      };
      break;
    }
    case "session_before_tree":
      event.signal = call.controller.signal;
      break;
    case "turn_end":
    case "agent_before_settle": {
      const messages = event.context ?? [];
      event.context = {
        contextEntries: [], contextMessages: messages, llmMessages: messages, pendingMessages: [],
        canContinue: messages.length > 0 && messages.at(-1).role !== "assistant",
      };
      break;
    }
  }
}

async function tool(extension, { name, id, params, context }, call) {
  const definition = registered(extension.tools, name, `tool ${name}`);
  const onUpdate = (partial) => send({ type: "update", n: call.n, value: partial });
  const ctx = contextOf(extension, context, call, "tool");
  return await definition.execute(id, params, call.controller.signal, onUpdate, ctx);
}

function prepare(extension, { name, params }) {
  return registered(extension.tools, name, `tool ${name}`).prepareArguments(params);
}

async function command(extension, { name, text, context }, call) {
  const ctx = contextOf(extension, context, call, "command");
  await registered(extension.commands, name, `command ${name}`).handler(text, ctx);
}

async function shortcut(extension, { name, context }, call) {
  await registered(extension.shortcuts, name, `shortcut ${name}`).handler(contextOf(extension, context, call));
}

async function completion(extension, { name, prefix }) {
  return await registered(extension.commands, name, `command ${name}`).getArgumentCompletions(prefix);
}

/** Return what the listeners of all extensions leave of a key or a paste. */
async function key(_extension, { data }) {
  const { heard } = require("./terminal-input.cjs");
  return heard(data);
}

/** Complete the text of the client's editor by the providers of all extensions. */
async function text(_extension, message, call) {
  const { completeText } = require("./completing.cjs");
  return await completeText(message, call);
}

/** Draw an item of the conversation as lines; null: the client is to draw it. */
async function render(extension, { item, columns, context, chooses }) {
  // With the first item that is drawn.
  const { rendered, transformed } = require("./items.cjs");
  if (item.kind === "markdown") return transformed(extension, item, columns);
  const who = { extension: extension.number, context };
  const renderers = chooses ? chosen(extension, item.name, who) : extension.tools.get(item.name);
  return rendered(extension, item, columns, who, renderers);
}

/** The renderers of a tool that functions of `registerToolRenderer` choose: one chain of all extensions, as in pi. */
function chosen(extension, name, who) {
  const all = [...extensions.values()];
  // The first extension with such a function asks for the chain.
  if (all.find((each) => each.toolResolvers.length > 0) !== extension) return undefined;
  const resolvers = all.flatMap((each) => each.toolResolvers);
  const next = (place) => {
    if (place < resolvers.length) return resolvers[place](name, () => next(place + 1));
    const own = all.find((each) => each.tools.has(name))?.tools.get(name);
    // A tool that is not of these extensions is drawn as it would be without the function.
    return own ?? (now(who, "get_all_tools").some((each) => each.name === name) ? {} : undefined);
  };
  return next(0);
}

/** Call a function that was kept: of `newSession`, `compact`, a provider, or operations. */
async function kept(extension, { number, member, values, context }, call) {
  const found = registered(extension.kept, number, "a callback");
  const ctx = context == null ? [] : [contextOf(extension, context, call, "replaced")];
  const result = member ? found[member](...values, ...ctx) : found(...values, ...ctx);
  return await result;
}

/** Run operations of `user_bash`: the output travels as updates. */
async function operations(extension, { number, line, cwd, timeout, env }, call) {
  const found = registered(extension.kept, number, "operations");
  const onData = (data) => send({ type: "update", n: call.n, value: Buffer.from(data).toString("base64") });
  return await found.exec(line, cwd, { onData, signal: call.controller.signal, timeout: timeout ?? undefined, env });
}

/** Answer a model request with `streamSimple`: each event travels as an update. */
async function stream(extension, { number, model, request, options }, call) {
  const found = registered(extension.kept, number, "streamSimple");
  const events = await found(model, request, { ...options, signal: call.controller.signal });
  for await (const event of events) {
    const { partial: _partial, ...rest } = event;
    send({ type: "update", n: call.n, value: rest });
  }
}

/** Run the login of a provider: its callbacks are the agent's. */
async function login(extension, { number, context }, call) {
  const who = { extension: extension.number, context };
  const { signal } = call.controller;
  return await registered(extension.kept, number, "oauth").login({
    signal,
    onAuth: ({ url, instructions }) => post(who, "login.auth", url, instructions ?? null),
    onDeviceCode: (info) => post(who, "login.device", info.userCode, info.verificationUri, info.expiresInSeconds ?? null),
    onProgress: (message) => post(who, "login.progress", message),
    onPrompt: (prompt) => ask(who, "login.prompt", [prompt.message, prompt.placeholder ?? null, prompt.allowEmpty === true], signal),
    onManualCodeInput: () => ask(who, "login.code", [], signal),
    onSelect: (choice) => ask(who, "login.select", [choice.message, choice.options], signal),
  });
}

const CALLABLE = { handler, tool, prepare, command, shortcut, completion, key, text, render, kept, operations, stream, login };

module.exports = { Extension, addExtension, forgetExtensions, loaded, extensionOf, CALLABLE };
