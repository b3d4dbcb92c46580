/** `@earendil-works/pi-ai`: requests of models go to the agent, which has the keys. What few extensions use is loaded with its first use. */

"use strict";

const { EventStream, AssistantMessageEventStream, createAssistantMessageEventStream } = require("./ai-events.cjs");
const { Type } = require("./typebox.cjs");
const { now } = require("../wire.cjs");

/** A string of several values, in the form that every provider accepts. */
function StringEnum(values, options = {}) {
  return Type.Unsafe({ type: "string", enum: [...values], ...options });
}

/** The built-in catalog, as in pi: the same while a module is loaded and later, whatever the user's files and extensions say. */
const getProviders = () => now(undefined, "catalog.providers");
const getModels = (provider) => now(undefined, "catalog.models", provider);
const getModel = (provider, id) => getModels(provider).find((each) => each.id === id);

// The names of variables are exported by names that come from them.
const VARIABLES = [
  ...["API_KEY", "AUTH_TOKEN", "FEDERATION_RULE_ID", "IDENTITY_TOKEN_FILE", "OAUTH_TOKEN", "ORGANIZATION_ID", "SERVICE_ACCOUNT_ID"],
  "WORKSPACE_ID",
].map((name) => `ANTHROPIC_${name}`);

module.exports = {
  ...Object.fromEntries(VARIABLES.map((name) => [`${name}_ENV`, name])),
  StringEnum, Type, EventStream, AssistantMessageEventStream, createAssistantMessageEventStream, getModel, getModels,
  getProviders, getBuiltinModel: getModel, getBuiltinModels: getModels, getBuiltinProviders: getProviders,
};

const LATER = {
  "./ai-requests.cjs": [
    ...["complete", "stream", "completeSimple", "streamSimple", "lazyStream", "lazyApi", "registerApiProvider", "getApiProvider"],
    ...["getApiProviders", "unregisterApiProviders", "resetApiProviders", "registerBuiltInApiProviders", "getEnvApiKey", "findEnvKeys"],
    ...["anthropicMessagesApi", "azureOpenAIResponsesApi", "bedrockConverseStreamApi", "googleGenerativeAIApi", "googleVertexApi"],
    ...["mistralConversationsApi", "openAICodexResponsesApi", "openAICompletionsApi", "openAIResponsesApi", "piMessagesApi"],
    ...["streamAnthropic", "streamAzureOpenAIResponses", "streamGoogle", "streamGoogleVertex", "streamMistral"],
    ...["streamOpenAICodexResponses", "streamOpenAICompletions", "streamOpenAIResponses", "streamSimpleAnthropic"],
    ...["streamSimpleAzureOpenAIResponses", "streamSimpleGoogle", "streamSimpleGoogleVertex", "streamSimpleMistral"],
    ...["streamSimpleOpenAICodexResponses", "streamSimpleOpenAICompletions", "streamSimpleOpenAIResponses"],
  ],
  "./ai-models.cjs": [
    ...["calculateCost", "getSupportedThinkingLevels", "clampThinkingLevel", "modelsAreEqual", "getModelType", "isModelType", "hasApi"],
    ...["ModelsError", "createProvider", "envApiKeyAuth", "defaultProviderAuthContext", "lazyOAuth", "InMemoryCredentialStore"],
    ...["InMemoryModelsStore", "getPromptCacheTtlMs"],
  ],
  "./ai-transcript.cjs": [
    ...["contentText", "getSystemMessageText", "renderSystemMessageUpdate", "createInitialSystemMessage", "normalizeContext"],
    ...["getInitialSystemMessage", "withoutInitialSystemMessage", "getCurrentTools", "getDeclaredTools", "getCurrentSystemMessage"],
    ...["getCurrentSystemPrompt", "collapseSystemMessages", "resolveTranscript", "toToolDeclaration", "declarationsEqual"],
    ...["getToolStateChanges", "hasToolRedefinitions", "hasNonAdditiveToolChanges", "resolveTranscriptTools"],
  ],
  "./ai-texts.cjs": [
    ...["repairJson", "parseJsonWithRepair", "parseStreamingJson", "parseToolCallArguments", "validateToolCall"],
    ...["validateToolArguments", "isContextOverflow", "isRetryableAssistantError", "isRecoverableLength", "uuidv7", "formatThrownValue"],
    ...["extractDiagnosticError", "createAssistantMessageDiagnostic", "appendAssistantMessageDiagnostic", "sanitizeSurrogates"],
    ...["getClientVersion", "PI_AI_VERSION", "PI_ATTRIBUTION", "DEFAULT_MAX_AGENT_RETRY_DELAY_MS", "retryDelayMs"],
    ...["retryAssistantCall", "mergeClientIdentity"],
  ],
};
// A module below `pi-ai/api` has the functions of that API.
Object.defineProperty(module.exports, "under", {
  value(subpath) {
    const api = /^\/api\/([a-z-]+?)(?:\.lazy)?(?:\.js)?$/.exec(subpath)?.[1];
    if (api === undefined) return module.exports;
    return Object.create(module.exports, Object.getOwnPropertyDescriptors(require("./ai-requests.cjs").streamsOf(api)));
  },
});
for (const [file, names] of Object.entries(LATER)) {
  for (const name of names) {
    Object.defineProperty(module.exports, name, { enumerable: true, get: () => require(file)[name] });
  }
}
