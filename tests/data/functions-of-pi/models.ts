// The models and keys of the agent, by each class that shows them.

import { AuthStorage, ModelRegistry, ModelRuntime, ProjectTrustStore } from "@earendil-works/pi-coding-agent";
import path from "node:path";
const early = [AuthStorage.create(), ModelRegistry.create(AuthStorage.create())]; // as packages do, before any event
export default (pi) => pi.registerCommand("go", { async handler(_text, ctx) {
  const refusal = async (run) => { try { await run(); return "done"; } catch (error) { return error.message; } };
  const { provider, id } = ctx.model;
  const runtime = await ModelRuntime.create({ authPath: path.join(process.env.PI_CODING_AGENT_DIR, "auth.json") });
  const registry = new ModelRegistry(runtime);
  const question = { messages: [{ role: "user", content: "hi", timestamp: 1 }] };
  const answer = await ctx.modelRegistry.runtime.completeSimple(ctx.model, question);
  const found = {
    sizes: [runtime.getModels().length, registry.getAll().length, ctx.modelRegistry.getAll().length],
    available: [runtime.getAvailableSnapshot(), await runtime.getAvailable(provider), early[1].getAvailable()].map((each) => each.length),
    none: await runtime.getAvailable("absent"),
    model: [runtime.getModel(provider, id), registry.find(provider, id)].map((each) => each.id),
    keys: [
      (await runtime.getAuth(ctx.model)).auth.apiKey, (await runtime.getAuth(provider)).auth.apiKey, await early[0].getApiKey(provider),
      await registry.getApiKeyForProvider(provider), (await registry.getApiKeyAndHeaders(ctx.model)).apiKey,
      (await ctx.modelRegistry.getProviderAuth(provider)).auth.apiKey,
    ],
    has: [
      runtime.hasConfiguredAuth(provider), runtime.hasConfiguredAuth("absent"), early[0].hasAuth(provider), registry.hasConfiguredAuth(ctx.model),
    ],
    status: [registry.getProviderAuthStatus("absent"), await runtime.checkAuth("absent") ?? null, await registry.getProviderAuth("absent") ?? null],
    kinds: [ctx.modelRegistry instanceof ModelRegistry, registry instanceof ModelRegistry, runtime instanceof ModelRuntime, early[0] instanceof AuthStorage],
    answer: answer.content[0].text,
    refusals: [
      await refusal(() => ModelRuntime.create({ credentials: {} })), await refusal(() => ModelRuntime.create({ modelsPath: "/elsewhere/models.json" })),
      await refusal(() => runtime.login("p")), await refusal(() => registry.registerProvider("p", {})), await refusal(() => early[0].set("p", {})),
      await refusal(() => AuthStorage.inMemory()), await refusal(() => new ProjectTrustStore("/").set("/", true)),
    ],
  };
  ctx.ui.notify(JSON.stringify(found));
} });
