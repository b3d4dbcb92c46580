/** `ctx.modelRegistry`: the agent's models. Keys stay with the agent unless `getApiKeyAndHeaders` is called. */

"use strict";

const { ask, now } = require("./wire.cjs");

function modelsOf(who) {
  const key = (model) => ask(who, "models.key", [model]);
  const members = {
    getAll: () => now(who, "models.all"),
    getAvailable: () => now(who, "models.available"),
    find: (provider, id) => now(who, "models.find", provider, id),
    hasConfiguredAuth: (model) =>
      now(who, "models.available").some((each) => each.provider === model.provider && each.id === model.id),
    async getApiKeyAndHeaders(model) {
      try {
        return { ok: true, ...(await key(model)) };
      } catch (error) {
        return { ok: false, error: error.message };
      }
    },
    async getApiKey(model) {
      return (await key(model).catch(() => ({}))).apiKey;
    },
    async getApiKeyForProvider(provider) {
      const model = now(who, "models.all").find((each) => each.provider === provider);
      return model === undefined ? undefined : (await key(model).catch(() => ({}))).apiKey;
    },
    isUsingOAuth: () => false,
    getProviderDisplayName: (provider) => provider,
    getError: () => undefined,
    refresh: async () => {},
  };
  return new Proxy(members, {
    get(target, name) {
      if (name in target || typeof name === "symbol" || name === "then") return target[name];
      throw new Error(`ctx.modelRegistry.${name} is not available in pinnace`);
    },
  });
}

module.exports = { modelsOf };
