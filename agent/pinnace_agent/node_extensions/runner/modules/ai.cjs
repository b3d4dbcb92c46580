/** `@earendil-works/pi-ai`: requests of models go to the agent's providers, which have the keys. */

"use strict";

const { Type } = require("./typebox.cjs");
const { ask, now } = require("../wire.cjs");


/** A string of several values, in the form that every provider accepts. */
function StringEnum(values, options = {}) {
  return Type.Unsafe({ type: "string", enum: [...values], ...options });
}

/** Request one answer. Resolves also when it failed: then `stopReason` is `error` or `aborted`, as in pi. */
async function complete(model, context, options = {}) {
  const { signal, reasoning, maxTokens } = options ?? {};
  try {
    return await ask(undefined, "complete", [model, context, reasoning ?? "off", maxTokens ?? null], signal);
  } catch (error) {
    const none = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } };
    return {
      role: "assistant", content: [], api: model.api, provider: model.provider, model: model.id, usage: none,
      stopReason: signal?.aborted ? "aborted" : "error", errorMessage: error?.message ?? String(error), timestamp: Date.now(),
    };
  }
}

/** Request one answer as a stream of events: they come together when it is complete. */
function stream(model, context, options) {
  const events = createAssistantMessageEventStream();
  void complete(model, context, options).then((message) => {
    if (message.stopReason === "error" || message.stopReason === "aborted") {
      events.push({ type: "error", reason: message.stopReason, error: message });
    } else {
      events.push({ type: "start", partial: message });
      message.content.forEach((block, contentIndex) => {
        const kind = block.type === "toolCall" ? "toolcall" : block.type;
        const delta = block.text ?? block.thinking ?? JSON.stringify(block.arguments);
        events.push({ type: `${kind}_start`, contentIndex, partial: message });
        events.push({ type: `${kind}_delta`, contentIndex, delta, partial: message });
        events.push({ type: `${kind}_end`, contentIndex, ...(kind === "toolcall" ? { toolCall: block } : { content: delta }), partial: message });
      });
      events.push({ type: "done", reason: message.stopReason, message });
    }
    events.end();
  });
  return events;
}

/** A queue of events that is read as an async iterator; `result` is its last message. */
class EventStream {
  #queue = [];
  #waiting = [];
  #isOver = false;
  #result = Promise.withResolvers();
  #isLast;
  #resultOf;

  constructor(isLast, resultOf) {
    this.#isLast = isLast;
    this.#resultOf = resultOf;
  }

  push(event) {
    if (this.#isOver) return;
    if (this.#isLast(event)) {
      this.#isOver = true;
      this.#result.resolve(this.#resultOf(event));
    }
    const reader = this.#waiting.shift();
    if (reader) reader({ value: event, done: false });
    else this.#queue.push(event);
  }

  end(result) {
    this.#isOver = true;
    if (result !== undefined) this.#result.resolve(result);
    for (const reader of this.#waiting.splice(0)) reader({ value: undefined, done: true });
  }

  result() {
    return this.#result.promise;
  }

  async *[Symbol.asyncIterator]() {
    for (;;) {
      if (this.#queue.length > 0) yield this.#queue.shift();
      else if (this.#isOver) return;
      else {
        const next = await new Promise((resolve) => this.#waiting.push(resolve));
        if (next.done) return;
        yield next.value;
      }
    }
  }
}

class AssistantMessageEventStream extends EventStream {
  constructor() {
    super((event) => event.type === "done" || event.type === "error", (event) => event.message ?? event.error);
  }
}
const createAssistantMessageEventStream = () => new AssistantMessageEventStream();

/** The built-in catalog, as in pi: the same while a module is loaded and later, whatever the user's files and extensions say. */
const getProviders = () => now(undefined, "catalog.providers");
const getModels = (provider) => now(undefined, "catalog.models", provider);
const getModel = (provider, id) => getModels(provider).find((each) => each.id === id);

/** The price of a usage, in dollars; it is set in the usage as well, as in pi. */
function calculateCost(model, usage) {
  const price = (kind) => ((model.cost?.[kind] ?? 0) / 1_000_000) * (usage[kind] ?? 0);
  const cost = { input: price("input"), output: price("output"), cacheRead: price("cacheRead"), cacheWrite: price("cacheWrite") };
  usage.cost = { ...cost, total: cost.input + cost.output + cost.cacheRead + cost.cacheWrite };
  return usage.cost;
}

module.exports = {
  StringEnum, complete, stream, EventStream, AssistantMessageEventStream, createAssistantMessageEventStream, getModel,
  getModels, getProviders, getBuiltinModel: getModel, getBuiltinModels: getModels, getBuiltinProviders: getProviders,
  calculateCost, Type, completeSimple: complete, streamSimple: stream,
};
