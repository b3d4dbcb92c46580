/** Models by what a user calls them, as the agent understands it on its own command line; the texts are its own, too. */

"use strict";

const { now } = require("../wire.cjs");

/** The model that `cliModel` names: `{ model, thinkingLevel, warning, error }`. */
function resolveCliModel({ cliProvider, cliModel, cliThinking, inlineApiKey, modelRuntime }) {
  if (!cliModel) return { model: undefined, warning: undefined, error: undefined };
  const models = [...modelRuntime.getModels()];
  const providers = [...new Set(models.map((each) => each.provider))];
  const usable = inlineApiKey ? [] : providers.filter((each) => modelRuntime.hasConfiguredAuth(each));
  const found = now(undefined, "resolve_model", models, { cliModel, cliProvider, cliThinking, inlineApiKey }, usable);
  const { model, thinkingLevel, warning, error } = found;
  return { model: known(models, model), thinkingLevel: thinkingLevel ?? undefined, warning: warning ?? undefined, error: error ?? undefined };
}

/** The models that patterns name among those that can be used, in their order, and what is wrong with a pattern. */
async function resolveModelScopeWithDiagnostics(patterns, modelRuntime, options) {
  const models = [...await modelRuntime.getAvailable(undefined, options)];
  const scopedModels = [];
  const diagnostics = [];
  for (const pattern of patterns) {
    const found = now(undefined, "resolve_scope", models, pattern);
    const code = found.models.length > 0 ? "invalid-thinking-level" : "no-match";
    diagnostics.push(...found.warnings.map((message) => ({ type: "warning", code, message, pattern })));
    for (const { model, thinkingLevel } of found.models) {
      const own = known(models, model);
      if (!scopedModels.some((each) => each.model === own)) scopedModels.push({ model: own, thinkingLevel: thinkingLevel ?? undefined });
    }
  }
  return { scopedModels, diagnostics };
}

/** The object that was given for a model; one that is made up stays as it is. */
const known = (models, model) => models.find((each) => each.provider === model?.provider && each.id === model.id) ?? model ?? undefined;

module.exports = { resolveCliModel, resolveModelScopeWithDiagnostics };
