"""Requests of models by extensions in TypeScript: through the provider of a model, and by the functions of one API."""

import json
from typing import Any, Final

from tests.rpc.extensions.conftest import Extended, Start, call

from pinnace_fuzz.script import Scripted

MODEL: Final = """{ id: "m", name: "M", reasoning: false, input: ["text"], contextWindow: 9000, maxTokens: 100,
  cost: { input: 1, output: 2, cacheRead: 0, cacheWrite: 0 } }"""

# An extension with the address of the scripted server, a model of it, and a command with the body of a test.
TEXT: Final = """
import fs from "node:fs";
IMPORTS
const { providers } = JSON.parse(fs.readFileSync(`${process.env.PI_CODING_AGENT_DIR}/models.json`, "utf8"));
const [{ baseUrl }] = Object.values(providers);
const MODEL_ = MODEL;
const user = (text) => ({ role: "user", content: [{ type: "text", text }], timestamp: 1 });
export default async (pi) => {
  WHOLE
  pi.registerCommand("do", { handler: async (args, ctx) => {
    const show = (value) => ctx.ui.notify(JSON.stringify(value ?? null));
    BODY
  } });
};
"""


def extension(body: str, imports: str = "", whole: str = "") -> str:
    outline = TEXT.replace("IMPORTS", imports).replace("MODEL_", "model").replace("MODEL", MODEL)
    return outline.replace("WHOLE", whole).replace("BODY", body)


def outcome(one: Extended) -> Any:
    one.command("/do")
    return json.loads(one.notice())


def test_events_come_as_the_agent_reads_them(scripted: Start) -> None:
    """With the message as it is by then; the last one has the price of the answer."""
    body = """
        const events = stream(ctx.model, { systemPrompt: "brief", messages: [user("hm?")] });
        const seen = [];
        for await (const { type, delta, content, reason, partial, message } of events) {
          seen.push([type, delta ?? content ?? reason ?? null]);
          if ((partial ?? message).role !== "assistant") throw new Error(type);
        }
        show([seen, await events.result()]);
    """
    script: list[Scripted] = [{"text": ["He", "llo"]}]
    one = scripted(extension(body, 'import { stream } from "@earendil-works/pi-ai";'), script)
    seen, answer = outcome(one)
    assert [
        ["start", None],
        ["text_start", None],
        ["text_delta", "He"],
        ["text_delta", "llo"],
        ["text_end", "Hello"],
        ["done", "stop"],
    ] == seen
    assert [{"type": "text", "text": "Hello"}] == answer["content"]
    assert answer["usage"]["cost"]["total"] > 0
    assert "brief" == one.prompt


def test_tools_are_sent_and_called(scripted: Start) -> None:
    body = """
        const tools = [{ name: "look", description: "Look", parameters: { type: "object" }, execute() {} }];
        const answer = await complete(ctx.model, { messages: [user("hm?")], tools });
        const [found] = answer.content;
        show([answer.stopReason, found.name, validateToolCall(tools, found), contentText(answer.content)]);
    """
    imports = 'import { complete, contentText, validateToolCall } from "@earendil-works/pi-ai";'
    one = scripted(extension(body, imports), [call("look", at="sea")])
    assert ["toolUse", "look", {"at": "sea"}, ""] == outcome(one)
    assert ["look"] == one.declared


def test_an_api_is_asked_with_the_callers_address_key_and_hooks(scripted: Start) -> None:
    """Whatever the provider of the model is; also below `pi-ai/api`, by its former name, and of the registry."""
    body = """
        const mine = { ...model, api: "own", provider: "own", baseUrl };
        const heads = [];
        const options = { apiKey: "its-own", headers: { "x-own": "yes" }, temperature: 0.5, maxTokens: 7,
          onPayload: (payload) => ({ ...payload, marked: true }), onResponse: ({ status }) => heads.push(status) };
        const ways = [openAICompletionsApi().streamSimple, streamSimpleOpenAICompletions, direct,
          getApiProvider("openai-completions").stream];
        const texts = [];
        for (const way of ways) {
          const answer = await way(mine, { messages: [user("hm?")] }, options).result();
          texts.push([answer.api, answer.content[0]?.text ?? answer.errorMessage]);
        }
        show([texts, heads, getApiProviders().length, getApiProvider("none") ?? null]);
    """
    imports = """
import { openAICompletionsApi, streamSimpleOpenAICompletions } from "@earendil-works/pi-ai/compat";
import { getApiProvider, getApiProviders } from "@earendil-works/pi-ai/compat";
import { streamSimple as direct } from "@mariozechner/pi-ai/api/openai-completions";
    """
    one = scripted(extension(body, imports), [{"text": "yes", "repeat": -1}])
    assert [[["own", "yes"]] * 4, [200] * 4, 10, None] == outcome(one)
    for request in one.pi.llm.requests:
        assert "Bearer its-own" == request.headers["authorization"]
        assert "yes" == request.headers["x-own"]
        assert (True, 0.5) == (request.body["marked"], request.body["temperature"])


def test_a_failure_is_a_message_with_its_kind(scripted: Start) -> None:
    body = """
        const [refused, busy, gone] = [await complete(ctx.model, { messages: [user("a")] }),
          await complete(ctx.model, { messages: [user("b")] }),
          await complete({ ...model, api: "none", provider: "none" }, { messages: [] })];
        const kinds = (each) => [each.stopReason, isContextOverflow(each), isRetryableAssistantError(each)];
        show([refused, busy, gone].map(kinds));
    """
    imports = 'import { complete, isContextOverflow, isRetryableAssistantError } from "@earendil-works/pi-ai";'
    script: list[Scripted] = [
        {"error": {"status": 400, "message": "prompt is too long: 9 tokens > 8 maximum"}},
        {"error": {"status": 503, "message": "overloaded"}},
    ]
    one = scripted(extension(body, imports), script)
    assert [["error", True, False], ["error", False, True], ["error", False, False]] == outcome(one)


def test_a_signal_gives_a_request_up(scripted: Start) -> None:
    body = """
        const controller = new AbortController();
        const events = stream(ctx.model, { messages: [user("hm?")] }, { signal: controller.signal });
        for await (const event of events) if (event.type === "text_delta") controller.abort();
        show((await events.result()).stopReason);
    """
    script: list[Scripted] = [{"chunks": [{"text": "He"}, {"hang": True}]}]
    one = scripted(extension(body, 'import { stream } from "@earendil-works/pi-ai";'), script)
    assert "aborted" == outcome(one)


def test_a_provider_is_made_of_an_api(scripted: Start) -> None:
    """Its deltas reach the client, its models and its key are its own."""
    whole = """
        const models = [{ ...model, api: "openai-completions", provider: "made", baseUrl }];
        const auth = { apiKey: envApiKeyAuth("Made", ["MADE_KEY"]) };
        const fetchModels = async () => [{ ...models[0], id: "later" }];
        pi.registerProvider(createProvider({ id: "made", auth, models, api: openAICompletionsApi(), fetchModels }));
    """
    body = """
        const other = { ...model, api: "none" };
        const provider = createProvider({ id: "x", models: [], api: { own: {} } });
        const { errorMessage } = await provider.stream(other, {}).result();
        const thinks = { ...model, reasoning: true };
        show([errorMessage, getSupportedThinkingLevels(model), clampThinkingLevel(thinks, "max")]);
    """
    imports = """
import { clampThinkingLevel, createProvider, envApiKeyAuth, getSupportedThinkingLevels } from "@earendil-works/pi-ai";
import { openAICompletionsApi } from "@earendil-works/pi-ai/compat";
    """
    script: list[Scripted] = [{"text": ["He", "llo"]}]
    one = scripted(extension(body, imports, whole), script, env={"MADE_KEY": "of-its-own"})
    listed = [each["id"] for each in one.pi.ask("get_available_models")["models"] if each["provider"] == "made"]
    assert ["m", "later"] == listed
    assert one.pi.request({"type": "set_model", "provider": "made", "modelId": "later"})["success"]
    mark = one.pi.mark()
    one.say("hello")
    events = [each["assistantMessageEvent"] for each in one.pi.found({"type": "message_update"}, since=mark)]
    assert ["He", "llo"] == [each["delta"] for each in events if each["type"] == "text_delta"]
    assert "Bearer of-its-own" == one.pi.llm.requests[-1].headers["authorization"]
    assert ['Provider x has no API implementation for "none"', ["off"], "high"] == outcome(one)


def test_keys_of_the_environment_are_found_by_their_provider(scripted: Start) -> None:
    body = (
        'show([getEnvApiKey("groq"), findEnvKeys("groq"), getEnvApiKey("xai") ?? null, findEnvKeys("none") ?? null]);'
    )
    imports = 'import { findEnvKeys, getEnvApiKey } from "@earendil-works/pi-ai/compat";'
    one = scripted(extension(body, imports), env={"GROQ_API_KEY": "a-key"})
    assert ["a-key", ["GROQ_API_KEY"], None, None] == outcome(one)


def test_a_request_is_repeated_as_the_policy_says(scripted: Start) -> None:
    """A failure that may pass is tried again, another one is not, and giving up while it waits is an abort."""
    body = """
        const policy = { enabled: true, maxRetries: 1, baseDelayMs: 1 };
        const produce = () => complete(ctx.model, { messages: [user("hm?")] });
        const calls = [];
        const note = (name) => (...values) => calls.push([name, ...values.slice(0, 2)]);
        const names = ["onRetryScheduled", "onRetryAttemptStart", "onRetryFinished"];
        const callbacks = Object.fromEntries(names.map((each) => [each, note(each)]));
        const reasons = [];
        for (const given of [policy, policy, undefined]) {
          reasons.push((await retryAssistantCall(produce, given, undefined, callbacks)).stopReason);
        }
        const { signal } = (() => { const made = new AbortController(); made.abort(); return made; })();
        const slow = { ...policy, baseDelayMs: 60000 };
        reasons.push((await retryAssistantCall(produce, slow, signal, callbacks)).stopReason);
        show([reasons, calls]);
    """
    imports = 'import { complete, retryAssistantCall } from "@earendil-works/pi-ai";'
    busy: Scripted = {"error": {"status": 503, "message": "overloaded"}}
    one = scripted(extension(body, imports), [busy, {"text": "yes"}, busy, busy, busy, busy])
    reasons, calls = outcome(one)
    assert ["stop", "error", "error", "aborted"] == reasons
    scheduled, begun = ["onRetryScheduled", 1, 1], ["onRetryAttemptStart"]
    assert [
        *(scheduled, begun, ["onRetryFinished", True, 1]),
        *(scheduled, begun, ["onRetryFinished", False, 1]),
        *(scheduled, ["onRetryFinished", False, 1]),
    ] == calls
