/** Models of pi-ai, and providers that are made of them. */

"use strict";

const fs = require("node:fs/promises");
const os = require("node:os");
const process = require("node:process");
const { lazyStream } = require("./ai-requests.cjs");

const LEVELS = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];

/**
 * The price of a usage, in dollars; it is set in the usage as well, as in pi.
 *
 * A long prompt has the rates of the highest tier that it exceeds; what is written to the cache for an hour costs twice the input.
 */
function calculateCost(model, usage) {
  const size = usage.input + usage.cacheRead + usage.cacheWrite;
  const tiers = (model.cost?.tiers ?? []).filter((each) => size > each.inputTokensAbove);
  const rates = tiers.reduce((one, other) => (other.inputTokensAbove > (one.inputTokensAbove ?? -1) ? other : one), model.cost ?? {});
  const price = (kind) => ((rates[kind] ?? 0) / 1_000_000) * (usage[kind] ?? 0);
  const hours = usage.cacheWrite1h ?? 0;
  const written = ((rates.cacheWrite ?? 0) * ((usage.cacheWrite ?? 0) - hours) + (rates.input ?? 0) * 2 * hours) / 1_000_000;
  const cost = { input: price("input"), output: price("output"), cacheRead: price("cacheRead"), cacheWrite: written };
  const total = cost.input + cost.output + cost.cacheRead + cost.cacheWrite;
  usage.cost = { ...cost, total, totalFromProvider: false };
  return usage.cost;
}

const getModelType = (model) => model.type ?? "chat";
const isModelType = (model, type) => getModelType(model) === type;
const hasApi = (model, api) => isModelType(model, "chat") && model.api === api;
const modelsAreEqual = (one, other) =>
  Boolean(one && other) && getModelType(one) === getModelType(other) && one.id === other.id && one.provider === other.provider;

/** The levels that a model has: a level that its map excludes is none, and the highest two only if the map has them. */
function getSupportedThinkingLevels(model) {
  if (!model.reasoning) return ["off"];
  const isOptional = (level) => level === "xhigh" || level === "max";
  return LEVELS.filter((level) => {
    const mapped = model.thinkingLevelMap?.[level];
    return mapped !== null && (mapped !== undefined || !isOptional(level));
  });
}

/** The level, the next higher one that the model has, or else the next lower one. */
function clampThinkingLevel(model, level) {
  const supported = getSupportedThinkingLevels(model);
  const wanted = LEVELS.indexOf(level);
  if (wanted === -1) return supported[0] ?? "off";
  const higher = LEVELS.slice(wanted).find((each) => supported.includes(each));
  return higher ?? LEVELS.slice(0, wanted).findLast((each) => supported.includes(each)) ?? supported[0] ?? "off";
}

/** How long the provider of a model keeps a prompt, in milliseconds; undefined: it does not, or it is not known. */
function getPromptCacheTtlMs(model, options) {
  const wanted = options?.env?.PI_CACHE_RETENTION ?? process.env.PI_CACHE_RETENTION;
  const seconds = model.promptCache?.[options?.cacheRetention ?? (wanted === "long" ? "long" : "short")];
  return seconds === undefined ? undefined : seconds * 1000;
}

class ModelsError extends Error {
  constructor(code, message, options) {
    super(message, options);
    this.name = "ModelsError";
    this.code = code;
  }
}

/** A provider object of its models and of the functions of one API, or of several by their names. */
function createProvider({ id, name, baseUrl, headers, auth, models, api, fetchModels, filterModels, filterAllModels, ...more }) {
  const single = typeof api?.stream === "function" ? api : undefined;
  if (!api && !more.images && !more.classifiers) {
    throw new Error(`Provider ${id}: at least one of "api", "images", or "classifiers" is required.`);
  }
  const isSame = (one, other) => getModelType(one) === getModelType(other) && one.id === other.id;
  let fetched = [];
  const all = () => {
    const merged = [...models];
    for (const model of fetched) {
      const at = merged.findIndex((each) => isSame(each, model));
      if (at === -1) merged.push(model);
      else merged[at] = model;
    }
    return merged;
  };
  const via = (member) => (model, context, options) => {
    const streams = single ?? api?.[model.api];
    if (streams) return streams[member](model, context, options);
    const lacks = () => Promise.reject(new ModelsError("stream", `Provider ${id} has no API implementation for "${model.api}"`));
    return lazyStream(model, lacks, undefined, options?.signal);
  };
  return {
    id, name: name ?? id, baseUrl, headers, auth, filterModels, filterAllModels,
    getModels: () => all().filter((model) => isModelType(model, "chat")), getAllModels: all,
    refreshModels: fetchModels && (async (context) => {
      if (!context.allowNetwork || context.signal.aborted) return;
      const found = await fetchModels(context);
      if (context.signal.aborted) return;
      await context.publish({ persist: { models: found, checkedAt: Date.now() }, update: () => (fetched = found) });
    }),
    stream: via("stream"), streamSimple: via("streamSimple"),
  };
}

/** Finds the key of a provider: the stored one, or the first variable that is set. */
function envApiKeyAuth(name, variables) {
  return {
    name,
    async login(interaction) {
      interaction.signal.throwIfAborted();
      const key = await interaction.prompt({ type: "secret", message: `Enter ${name}` });
      interaction.signal.throwIfAborted();
      return { type: "api_key", key };
    },
    async resolve({ ctx, credential, signal }) {
      signal?.throwIfAborted();
      if (credential?.key) return { auth: { apiKey: credential.key }, env: credential.env, source: "stored credential" };
      for (const variable of variables) {
        const value = await ctx.env(variable);
        if (value) return { auth: { apiKey: value }, source: variable };
      }
      return undefined;
    },
  };
}

const defaultProviderAuthContext = () => ({
  env: async (name) => (process.env[name]?.trim() ? process.env[name] : undefined),
  fileExists: (file) => fs.access(file.replace(/^~/, os.homedir())).then(() => true, () => false),
});

/** A login whose code is loaded when it is used. */
function lazyOAuth({ name, isSubscription, loginLabel, load }) {
  let loading;
  const via = (member) => async (...values) => (await (loading ??= load()))[member](...values);
  return { name, isSubscription, loginLabel, login: via("login"), refresh: via("refresh"), toAuth: via("toAuth") };
}

/** Values in memory, by provider; what changes one waits for the change before it. */
class InMemoryCredentialStore {
  #values = new Map();
  #last = new Map();

  #next(id, work) {
    const mine = (this.#last.get(id) ?? Promise.resolve()).then(work, work);
    this.#last.set(id, mine.catch(() => {}));
    return mine;
  }

  async read(id) { return this.#values.get(id); }
  async list() { return [...this.#values].map(([providerId, { type }]) => ({ providerId, type })); }
  modify(id, change) {
    return this.#next(id, async () => {
      const changed = await change(this.#values.get(id));
      if (changed !== undefined) this.#values.set(id, changed);
      return this.#values.get(id);
    });
  }
  delete(id) { return this.#next(id, async () => void this.#values.delete(id)); }
}

class InMemoryModelsStore {
  #entries = new Map();

  async read(id) { return structuredClone(this.#entries.get(id)); }
  async write(id, entry) { this.#entries.set(id, structuredClone(entry)); }
  async delete(id) { this.#entries.delete(id); }
}

module.exports = {
  calculateCost, getModelType, isModelType, hasApi, modelsAreEqual, getSupportedThinkingLevels, clampThinkingLevel,
  getPromptCacheTtlMs, ModelsError, createProvider, envApiKeyAuth, defaultProviderAuthContext, lazyOAuth,
  InMemoryCredentialStore, InMemoryModelsStore,
};
