/**
 * The agent's models, as `ctx.modelRegistry` and the classes of pi show them. Keys stay with the agent unless one is asked for.
 *
 * `ModelRegistry`, `ModelRuntime` and `AuthStorage` that an extension makes are all of the same models and keys: those of the
 * agent. Requests go to its providers. What would change them is refused by name.
 */

"use strict";

const { ask, now } = require("./wire.cjs");

const key = (who, model) => ask(who, "models.key", [model]);
const ai = () => require("./modules/ai.cjs");

/** Members of an object that refuses every other one by its name. */
function guarded(made, name) {
  return new Proxy(made, {
    get(target, member) {
      if (member in target || typeof member === "symbol" || member === "then") return Reflect.get(target, member);
      throw new Error(`${name}.${member} is not available in pinnace`);
    },
  });
}

/** What all three have. */
function modelsFor(who) {
  const all = () => now(who, "models.all");
  const available = () => now(who, "models.available");
  const isSame = (one, other) => one.provider === other.provider && one.id === other.id;
  const find = (provider, id) => now(who, "models.find", provider, id);
  const credentials = async (provider) => {
    const model = all().find((each) => each.provider === provider);
    return model === undefined ? {} : await key(who, model).catch(() => ({}));
  };
  return {
    all, available, find, credentials, hasKey: (model) => available().some((each) => isSame(each, model)),
    hasProvider: (provider) => available().some((each) => each.provider === provider),
  };
}

/** What a request carries; undefined: there is nothing for it. */
const authOf = (found) => found.apiKey === undefined && found.headers === undefined ? undefined : { auth: found, source: "the agent" };
const STATUS = (isConfigured) => isConfigured ? { configured: true, source: "the agent" } : { configured: false };

class ModelRegistry {
  constructor(_source, who) {
    const models = modelsFor(who);
    Object.assign(this, {
      getAll: models.all,
      getAvailable: models.available,
      find: models.find,
      hasConfiguredAuth: models.hasKey,
      async getApiKeyAndHeaders(model) {
        try {
          return { ok: true, ...(await key(who, model)) };
        } catch (error) {
          return { ok: false, error: error.message };
        }
      },
      getApiKey: async (model) => (await key(who, model).catch(() => ({}))).apiKey,
      getApiKeyForProvider: async (provider) => (await models.credentials(provider)).apiKey,
      getProviderAuth: async (provider) => authOf(await models.credentials(provider)),
      getProviderAuthStatus: (provider) => STATUS(models.hasProvider(provider)),
      isUsingOAuth: () => false,
      getProviderDisplayName: (provider) => provider,
      getError: () => undefined,
      refresh: async () => {},
      complete: (...values) => ai().complete(...values),
      stream: (...values) => ai().stream(...values),
      streamSimple: (...values) => ai().streamSimple(...values),
    });
    Object.defineProperty(this, "runtime", { get: () => new ModelRuntime(undefined, who) });
    Object.defineProperty(this, "authStorage", { get: () => new AuthStorage(undefined, who) });
    return guarded(this, who === undefined ? "ModelRegistry" : "ctx.modelRegistry");
  }

  /** As in former versions of pi. */
  static create() { return new ModelRegistry(); }
  static inMemory() { return new ModelRegistry(); }
}

// The models and keys of an agent are those of its folder.
const OF_FOLDER = new Set(["authPath", "modelsPath", "modelsStorePath"]);
const WITHOUT_EFFECT = new Set(["signal", "refreshOnCreate", "allowModelNetwork", "modelRefreshTimeoutMs"]);

class ModelRuntime {
  constructor(_options, who) {
    const models = modelsFor(who);
    const ofProvider = (found, provider) => provider === undefined ? found : found.filter((each) => each.provider === provider);
    Object.assign(this, {
      getModels: (provider) => ofProvider(models.all(), provider),
      getAllModels: (provider) => ofProvider(models.all(), provider),
      getModel: models.find,
      getPhysicalModel: models.find,
      getAvailable: async (provider) => ofProvider(models.available(), provider),
      getAllAvailable: async (provider) => ofProvider(models.available(), provider),
      getAvailableSnapshot: models.available,
      hasConfiguredAuth: models.hasProvider,
      getProviderAuthStatus: (provider) => STATUS(models.hasProvider(provider)),
      checkAuth: async (provider) => models.hasProvider(provider) ? { type: "api_key", source: "the agent" } : undefined,
      async getAuth(target) {
        return authOf(typeof target === "string" ? await models.credentials(target) : await key(who, target).catch(() => ({})));
      },
      isUsingOAuth: () => false,
      isUsingSubscription: () => false,
      getError: () => undefined,
      refresh: async () => ({ errors: [] }),
      settleCredentialWrites: async () => {},
      complete: (...values) => ai().complete(...values),
      completeSimple: (...values) => ai().completeSimple(...values),
      stream: (...values) => ai().stream(...values),
      streamSimple: (...values) => ai().streamSimple(...values),
    });
    return guarded(this, "ModelRuntime");
  }

  /** The models of the agent. Rejects with an error that names an option for other models or other keys. */
  static async create(options = {}) {
    const folder = now(undefined, "agent_dir");
    for (const [name, value] of Object.entries(options ?? {})) {
      const isOwn = OF_FOLDER.has(name) && typeof value === "string" && require("node:path").dirname(value) === folder;
      if (value !== undefined && !isOwn && !WITHOUT_EFFECT.has(name)) {
        throw new Error(`${name} of ModelRuntime.create is not available in pinnace: it has the models and keys of the agent`);
      }
    }
    return new ModelRuntime();
  }
}

/** The keys of the agent, as former versions of pi show them. */
class AuthStorage {
  constructor(_file, who) {
    const models = modelsFor(who);
    const stored = (provider) => require("./modules/coding-agent.cjs").readStoredCredential(provider);
    Object.assign(this, {
      get: stored,
      has: (provider) => stored(provider) !== undefined,
      hasAuth: models.hasProvider,
      getApiKey: async (provider) => (await models.credentials(provider)).apiKey,
      getAuthStatus: (provider) => STATUS(models.hasProvider(provider)),
      list: () => [...new Set(models.available().map((each) => each.provider))],
      reload() {},
      drainErrors: () => [],
    });
    return guarded(this, "AuthStorage");
  }
  static create() { return new AuthStorage(); }
  static inMemory() { throw new Error("AuthStorage.inMemory is not available in pinnace: it has the keys of the agent"); }
}

const modelsOf = (who) => new ModelRegistry(undefined, who);

module.exports = { modelsOf, ModelRegistry, ModelRuntime, AuthStorage };
