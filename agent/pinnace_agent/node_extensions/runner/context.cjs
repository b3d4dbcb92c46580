/** `ctx`: what a function of an extension can read and do, over the agent's contexts. */

"use strict";

const { modelsOf } = require("./models.cjs");
const { sessionOf } = require("./session.cjs");
const { userInterfaceOf } = require("./ui.cjs");
const { CALL, ask, askForChange, now } = require("./wire.cjs");

const known = new Map(); // by extension and number

/** The context of a number that the agent gave; one object for one number, so that extensions may keep it. */
function contextOf(extension, number, _call, kind = "handler") {
  const key = `${extension.number}:${number}`;
  let context = known.get(key);
  if (context === undefined) {
    const who = { extension: extension.number, context: number };
    context = kind === "handler" ? base(who) : kind === "tool" ? toolContext(who) : commandContext(extension, who, kind);
    if (kind !== "tool") known.set(key, context);
  }
  return context;
}

/** Drop the contexts of extensions. */
function forgetContexts(extensions) {
  const gone = new Set(extensions.map(String));
  for (const key of known.keys()) if (gone.has(key.split(":")[0])) known.delete(key);
}

function base(who) {
  const ui = userInterfaceOf(who);
  const sessionManager = sessionOf(who);
  const modelRegistry = modelsOf(who);
  const read = (name) => now(who, `ctx.${name}`);
  const context = {
    ui,
    sessionManager,
    modelRegistry,
    get mode() { return read("mode"); },
    get hasUI() { return read("hasUI"); },
    get cwd() { return read("cwd"); },
    get model() { return read("model"); },
    get scopedModels() { return read("scopedModels"); },
    get thinkingLevel() { return read("thinkingLevel"); },
    get signal() {
      const call = CALL.getStore();
      return call?.inRun ? call.controller.signal : undefined;
    },
    isIdle: () => read("isIdle"),
    isProjectTrusted: () => read("isProjectTrusted"),
    hasPendingMessages: () => read("hasPendingMessages"),
    getContextUsage: () => read("contextUsage"),
    getSystemPrompt: () => read("systemPrompt"),
    abort: () => void now(who, "ctx.abort"),
    shutdown: () => void now(who, "ctx.shutdown"),
    compact(options = {}) {
      // It may outlive the call that began it, so it belongs to none.
      const { customInstructions, onComplete, onError } = options;
      const work = CALL.exit(() => ask(who, "ctx.compact", [customInstructions ?? null]));
      work.then((result) => onComplete?.(result), (error) => onError?.(error));
    },
  };
  return context;
}

/** Copy getters as getters. */
function extended(context, members) {
  return Object.defineProperties(context, Object.getOwnPropertyDescriptors(members));
}

function toolContext(who) {
  return extended(base(who), {
    get tools() { return now(who, "ctx.tools"); },
    async executeTool() {
      throw new Error("ctx.executeTool is not available in pinnace: a tool can't call other tools here");
    },
  });
}

function commandContext(extension, who, kind) {
  const withSession = (options) => (options?.withSession ? extension.keep(options.withSession) : null);
  const context = extended(base(who), {
    getSystemPromptOptions: () => now(who, "ctx.systemPromptOptions"),
    waitForIdle: () => ask(who, "ctx.waitForIdle", []),
    newSession: (options) =>
      askForChange(who, "ctx.newSession", [
        options?.parentSession ?? null, options?.setup ? extension.keep(setupOf(options.setup)) : null, withSession(options),
      ]),
    fork: (entryId, options) => askForChange(who, "ctx.fork", [entryId, options?.position ?? "before", withSession(options)]),
    navigateTree: (targetId, options) => askForChange(who, "ctx.navigateTree", [targetId ?? null, options ?? {}]),
    switchSession: (path, options) => askForChange(who, "ctx.switchSession", [path, withSession(options)]),
    reload: () => askForChange(who, "ctx.reload", []),
  });
  if (kind !== "replaced") return context;
  return extended(context, {
    sendMessage: (message, options) => ask(who, "ctx.sendMessage", [message, options ?? {}]),
    sendUserMessage: (content, options) => ask(who, "ctx.sendUserMessage", [content, options ?? {}]),
  });
}

/** A new session is filled by the agent: what `setup` appends is collected, and applied when it has returned. */
function setupOf(setup) {
  return async () => {
    const steps = [];
    const writer = new Proxy(
      {
        appendMessage: (message) => void steps.push({ step: "message", message }),
        appendCustomEntry: (customType, data) => void steps.push({ step: "custom", customType, data: data ?? null }),
        appendSessionInfo: (name) => void steps.push({ step: "name", name }),
      },
      {
        get(target, name) {
          if (name in target || typeof name === "symbol" || name === "then") return target[name];
          throw new Error(
            `sessionManager.${name} is not available in setup of newSession: ` +
              "there are appendMessage, appendCustomEntry and appendSessionInfo",
          );
        },
      },
    );
    await setup(writer);
    return steps;
  };
}

/** The context of code that runs outside every call, such as a timer: that of the extension's handlers. */
function ownContext(extension) {
  return contextOf(extension, extension.number, undefined);
}

module.exports = { contextOf, forgetContexts, ownContext };
