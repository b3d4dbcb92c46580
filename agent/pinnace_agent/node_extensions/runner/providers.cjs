/** Provider objects of pi-ai, given to `registerProvider`, as a name and a configuration. */

"use strict";

// Stands for a key that the agent has not stored: the provider may have one of its own.
const NO_KEY = "unneeded";
const REFRESH_MS = 60_000;
const FIELDS = [
  "id", "name", "baseUrl", "headers", "input", "inputLimits", "cost", "reasoning", "thinkingLevelMap", "contextWindow", "maxTokens",
  "compat", "samplingParams",
];

/** Return the configuration by which the agent has an object's models, and requests of them go to the object. */
function configOf(provider) {
  for (const name of ["getModels", "streamSimple"]) {
    if (typeof provider?.[name] !== "function") throw new Error(`registerProvider: a provider object must have ${name}()`);
  }
  if (typeof provider.id !== "string" || provider.id === "") throw new Error("registerProvider: a provider object must have an id");
  const chat = () => provider.getModels().filter((model) => (model.type ?? "chat") === "chat");
  const fields = (model) => Object.fromEntries(FIELDS.filter((name) => model[name] !== undefined).map((name) => [name, model[name]]));
  const models = () => chat().map(fields);
  const config = {
    name: provider.name ?? provider.id, baseUrl: provider.baseUrl ?? "http://127.0.0.1:9", api: `${provider.id}-object`,
    apiKey: NO_KEY, models: models(),
    async streamSimple(model, context, options) {
      const own = provider.getModels().find((each) => each.id === model.id) ?? model;
      return provider.streamSimple(own, context, { ...options, ...(await authOf(provider, options)) });
    },
  };
  if (typeof provider.refreshModels === "function") {
    config.refreshModels = async (context) => {
      await provider.refreshModels(context);
      return models();
    };
  }
  return config;
}

/** What `refreshModels` gets, as in pi: nothing is stored between sessions, so what it publishes is taken at once. */
function refreshContext(given, oauth) {
  const key = given.apiKey === NO_KEY ? undefined : given.apiKey;
  const credential = oauth ? { type: "oauth", access: key } : { type: "api_key", key };
  return {
    ...given, credential: key ? credential : undefined, stored: undefined, allowNetwork: true, force: false,
    signal: AbortSignal.timeout(REFRESH_MS),
    async publish(publication) {
      publication?.update?.();
      return true;
    },
  };
}

/** The key and headers of a request: what the provider resolves, from the agent's key for it or from its environment. */
async function authOf(provider, options) {
  const stored = options?.apiKey === NO_KEY ? undefined : options?.apiKey;
  const credential = stored === undefined ? undefined : { type: "api_key", key: stored };
  const context = { env: async (name) => process.env[name], fileExists: async () => false };
  const { signal } = options ?? {};
  const found = await provider.auth?.apiKey?.resolve?.({ ctx: context, credential, signal });
  const headers = { ...options?.headers, ...found?.auth?.headers };
  return { apiKey: found?.auth?.apiKey ?? stored, headers };
}

module.exports = { configOf, refreshContext };
