/**
 * Requests of models: the agent sends them, with its keys unless the caller has one, and its events come as it reads them.
 *
 * `stream` and `complete` go by the provider of the model; the functions of an API go by that API, whatever the provider is,
 * so that a provider of an extension can be made of one.
 */

"use strict";

const process = require("node:process");
const { createAssistantMessageEventStream } = require("./ai-events.cjs");
const { extensionOf, loaded } = require("../registry.cjs");
const { CALL, ask, now } = require("../wire.cjs");

const NONE = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0 };

/** The message of a request that was not answered. */
function failed(model, error, signal) {
  return {
    role: "assistant", content: [], api: model.api, provider: model.provider, model: model.id,
    usage: { ...NONE, cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 } },
    stopReason: signal?.aborted ? "aborted" : "error", errorMessage: error?.message ?? String(error), timestamp: Date.now(),
  };
}

/** Whose callbacks those of a request are: the extension that runs, else any. */
function owner() {
  const number = CALL.getStore()?.extension;
  return number == null ? [...loaded()].at(0) : extensionOf(number);
}

/** A context with its prompt and its tools beside the messages. */
function plainContext({ systemPrompt, messages = [], tools = [] }) {
  const { getCurrentSystemPrompt, getCurrentTools } = require("./ai-transcript.cjs");
  const declared = [...tools, ...getCurrentTools(messages)];
  return {
    systemPrompt: [systemPrompt, getCurrentSystemPrompt(messages)].filter(Boolean).join("\n\n"),
    messages: messages.filter((each) => each.role !== "system"),
    tools: declared.map(({ name, description, parameters }) => ({ name, description, parameters })),
  };
}

/** The message as it grows by events, which come without it. */
class Growing {
  message;

  /** Take one event, and return it as pi has it. */
  taken(event) {
    if (event.type === "start") {
      this.message = event.partial;
      return event;
    }
    const { type, contentIndex: at, delta, id, toolName, ...rest } = event;
    const content = this.message.content;
    switch (type) {
      case "text_start":
        content[at] = { type: "text", text: "" };
        break;
      case "thinking_start":
        content[at] = { type: "thinking", thinking: "" };
        break;
      case "toolcall_start":
        content[at] = { type: "toolCall", id, name: toolName, arguments: {} };
        break;
      case "text_delta":
        content[at].text += delta;
        break;
      case "thinking_delta":
        content[at].thinking += delta;
        break;
      case "toolcall_end":
        content[at] = rest.toolCall;
    }
    return { type, contentIndex: at, ...(delta === undefined ? {} : { delta }), ...rest, partial: this.message };
  }
}

function requested(api, model, context, options) {
  const events = createAssistantMessageEventStream();
  void answered(events, api, model, context, options ?? {});
  return events;
}

async function answered(events, api, model, context, { signal, onPayload, onResponse, ...options }) {
  const growing = new Growing();
  const numbers = [];
  let extension;
  let message;
  try {
    extension = owner();
    const keep = (callback) => numbers[numbers.push(extension.keep(callback)) - 1];
    const kept = { events: keep((batch) => batch.forEach((each) => events.push(growing.taken(each)))) };
    if (onPayload) kept.payload = keep((payload) => onPayload(payload, model));
    if (onResponse) kept.response = keep((response) => onResponse(response, model));
    const reasoning = options.reasoning ?? options.reasoningEffort;
    const values = [api ?? null, model, plainContext(context), { ...options, reasoning }, kept];
    message = await ask({ extension: extension.number }, "models.stream", values, signal);
  } catch (error) {
    message = failed(model, error, signal);
  } finally {
    for (const number of numbers) extension.kept.delete(number);
  }
  const { stopReason: reason } = message;
  if (reason === "error" || reason === "aborted") events.push({ type: "error", reason, error: message });
  else events.push({ type: "done", reason, message });
  events.end(message);
}

/** The stream that is there when something else has been done. */
function lazyStream(model, setup, _observer, signal) {
  const events = createAssistantMessageEventStream();
  const forward = async () => {
    const inner = await setup();
    for await (const event of inner) events.push(event);
    events.end(await inner.result?.());
  };
  forward().catch((error) => {
    const message = failed(model, error, signal);
    events.push({ type: "error", reason: message.stopReason, error: message });
    events.end(message);
  });
  return events;
}

function lazyApi(load) {
  const via = (name) => (model, context, options) =>
    lazyStream(model, async () => (await load())[name](model, context, options), undefined, options?.signal);
  return { stream: via("stream"), streamSimple: via("streamSimple") };
}

// --- by API ----------------------------------------------------------------------------------------

const APIS = {
  anthropicMessages: "anthropic-messages", azureOpenAIResponses: "azure-openai-responses",
  bedrockConverseStream: "bedrock-converse-stream", googleGenerativeAI: "google-generative-ai", googleVertex: "google-vertex",
  mistralConversations: "mistral-conversations", openAICodexResponses: "openai-codex-responses",
  openAICompletions: "openai-completions", openAIResponses: "openai-responses", piMessages: "pi-messages",
};
// The names by which functions of an API were called before.
const FORMER = {
  Anthropic: "anthropic-messages", AzureOpenAIResponses: "azure-openai-responses", Google: "google-generative-ai",
  GoogleVertex: "google-vertex", Mistral: "mistral-conversations", OpenAICodexResponses: "openai-codex-responses",
  OpenAICompletions: "openai-completions", OpenAIResponses: "openai-responses",
};

/** The functions of one API. */
function streamsOf(api) {
  const stream = (model, context, options) => requested(api, model, context, options);
  return { stream, streamSimple: stream };
}

const registered = new Map(); // what extensions have put in the place of an API, or added

function registerApiProvider({ api, stream, streamSimple }, sourceId) {
  registered.set(api, { provider: { api, stream, streamSimple }, sourceId });
}
const isBuiltin = (api) => Object.values(APIS).includes(api);
const getApiProvider = (api) => registered.get(api)?.provider ?? (isBuiltin(api) ? { api, ...streamsOf(api) } : undefined);
const getApiProviders = () => [...new Set([...Object.values(APIS), ...registered.keys()])].map(getApiProvider);
function unregisterApiProviders(sourceId) {
  for (const [api, each] of registered) if (each.sourceId === sourceId) registered.delete(api);
}

const by = (name) => (model, context, options) =>
  registered.has(model.api) ? registered.get(model.api).provider[name](model, context, options) : requested(undefined, model, context, options);
const stream = by("stream");
const streamSimple = by("streamSimple");

// --- keys ------------------------------------------------------------------------------------------

/** The variables of an environment that hold a key of a provider; undefined: none does. */
function findEnvKeys(provider, env = {}) {
  const found = now(undefined, "key_variables", provider).filter((name) => (env[name] ?? process.env[name] ?? "") !== "");
  return found.length > 0 ? found : undefined;
}

function getEnvApiKey(provider, env = {}) {
  const [name] = findEnvKeys(provider, env) ?? [];
  return name === undefined ? undefined : (env[name] ?? process.env[name]);
}

module.exports = {
  stream, streamSimple, lazyStream, lazyApi, registerApiProvider, getApiProvider, getApiProviders, unregisterApiProviders,
  complete: (...values) => stream(...values).result(), completeSimple: (...values) => streamSimple(...values).result(),
  resetApiProviders: () => registered.clear(), registerBuiltInApiProviders() {}, findEnvKeys, getEnvApiKey, streamsOf,
};
for (const [name, api] of Object.entries(APIS)) module.exports[`${name}Api`] = () => streamsOf(api);
for (const [name, api] of Object.entries(FORMER)) {
  module.exports[`stream${name}`] = module.exports[`streamSimple${name}`] = streamsOf(api).stream;
}
