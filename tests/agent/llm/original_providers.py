"""What the original sends to a provider, release 1.5.2, asked with its own catalog, credentials and headers.

Unlike `original_requests`, which asks one API, this goes through the provider: it finds the key, the address and the
headers as in its own processes. Its `fetch` sends nothing.
"""

import json
import subprocess
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from tests.agent.llm.original_requests import original_tool, plain_ids
from tests.agent.llm.recording import Recorder
from tests.recorded import Record

from pinnace_agent.config.models.catalog import Catalog
from pinnace_agent.config.models.models import clamp_level
from pinnace_agent.core.surroundings import Surroundings, surrounded_by
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.request import LlmRequest, ToolSpec
from pinnace_agent.llm.transport.request import HttpRequest
from pinnace_agent.llm.vendors import prepare_or_fail
from pinnace_spec.records.messages import Message, Model, ThinkingLevel

SCRIPT: Final = """
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
const { ModelRuntime } = await import(process.argv[1]);
let input = "";
for await (const piece of process.stdin) input += piece;
const folder = mkdtempSync(`${tmpdir()}/auth-`);
const answers = [];
for (const { model, context, options, auth, variables } of JSON.parse(input)) {
  Object.assign(process.env, variables);
  const authPath = `${folder}/${answers.length}.json`;
  writeFileSync(authPath, JSON.stringify(auth));
  const runtime = await ModelRuntime.create({ authPath, modelsPath: null, refreshOnCreate: false });
  const sent = {};
  globalThis.fetch = async (url, { headers, body }) => {
    const told = [...new Headers(headers)].filter(([name]) => !/^x-stainless/.test(name));
    Object.assign(sent, { url: String(url), headers: Object.fromEntries(told), body: JSON.parse(body) });
    return new Response("", { status: 400 });
  };
  const known = runtime.getModel(model.provider, model.id);
  const asked = { ...model, headers: known.headers };
  const message = await runtime.streamSimple(asked, context, options).result();
  answers.push("url" in sent ? sent : { error: message.errorMessage });
  for (const each of Object.keys(variables)) delete process.env[each];
}
console.log(JSON.stringify(answers));
"""

# Of the clients of the original alone.
_CLIENTS_OWN: Final = frozenset({"accept", "anthropic-dangerous-direct-browser-access"})

_NOT_USED: Final = frozenset(
    {"supportsAdditionalTools", "supportsMidConvoSystemMessages", "supportsOpenAIGrammarTools"}
)
# Where this program's requests to an API differ from the original's, to all vendors: one more mark of the cache, whole
# schemas of tools, and no word about thoughts where a budget is sent.
_OF_OUR_API: Final = {"anthropic-messages": frozenset({"cache_control", "additionalProperties", "display"})}
DIFFERENCES: Final[Mapping[str, Set[str]]] = {
    "openai-completions": {"ids that differ at their ends"},
    "openai-responses": {"ids that differ at their ends", "a thought alone"},
    "anthropic-messages": {
        *("ids that differ at their ends", "results without text", "errors", "an empty error"),
        *(f"an answer of {api}" for api in ("google-generative-ai", "openai-completions")),
        *(f"{api} and back" for api in ("google-generative-ai", "openai-completions")),
    },
}
"""The conversations that this program sends in other words, by API: ids that differ stay different, also when they are
too long, results follow their calls in order, what has no text says so, and thoughts go only with what follows them."""


class ProviderCase(NamedTuple):
    """One request, as both programs are asked for it."""

    name: str
    model: Model
    messages: Sequence[Message]
    variables: Mapping[str, str]
    level: ThinkingLevel = "off"
    tools: Sequence[ToolSpec] = ()
    auth: Mapping[str, object] = {}
    """The provider's entry in auth.json."""
    key: str | None = "key"
    """As the resolver finds it for our request."""
    own_variables: Mapping[str, str] = {}


def built_in(provider: str, model_id: str) -> Model:
    """Return a built-in model, with what both programs make the same of.

    It has no flags that this program has no use for, and a limit of the output that no estimate of the input reaches.
    """
    found = Catalog().find(provider, model_id)
    assert found is not None
    unused = _NOT_USED | (set() if found["api"] == "anthropic-messages" else {"supportsMidConvoEffort"})
    compat = {name: value for name, value in (found.get("compat") or {}).items() if name not in unused}
    return cast("Model", {**found, "compat": compat, "maxTokens": 16_000})


def ask_original(original: Sequence[str], cases: Sequence[ProviderCase]) -> list[Record]:
    """Return what the original sends for each case: address, headers and body, or the error."""
    done = subprocess.run(
        [original[0], "--input-type=module", "-e", SCRIPT, str(Path(original[-1]).with_name("index.js"))],
        input=json.dumps([_asked(each) for each in cases]),
        env={"HOME": "/nonexistent", "PI_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers: list[Record] = json.loads(done.stdout.strip().rpartition("\n")[2])
    return [{"case": case.name, **each} for case, each in zip(cases, answers, strict=True)]


def _asked(case: ProviderCase) -> dict[str, Any]:
    tools, level = [original_tool(tool) for tool in case.tools], level_of(case)
    system = {"role": "system", "content": "Be brief.", "toolsAdded": tools, "timestamp": 0}
    return {
        "model": case.model,
        "context": {"messages": [system, *case.messages]},
        "options": {"sessionId": "s1", **({} if level == "off" else {"reasoning": level})},
        "auth": {case.model["provider"]: case.auth} if case.auth else {},
        "variables": case.variables,
    }


def level_of(case: ProviderCase) -> ThinkingLevel:
    """Return the level of a case as both agents choose it for the model."""
    return clamp_level(case.model, case.level)


def request_of(case: ProviderCase) -> tuple[LlmRequest | None, MessageBuilder]:
    """Return our request of a case, as its vendor wants it, and what was built if it can't be sent."""
    request = LlmRequest(
        case.model, "Be brief.", case.messages, case.tools, level_of(case), case.key, {}, "s1",
        variables=case.own_variables,
    )  # fmt: skip
    builder = MessageBuilder(case.model, Recorder(), 0)
    with surrounded_by(Surroundings(dict(case.variables))):
        return prepare_or_fail(request, builder), builder


def http_request_of(request: LlmRequest) -> HttpRequest:
    """Return the HTTP request of one of the three APIs that vendors serve."""
    from pinnace_agent.llm.anthropic import compat as messages_compat
    from pinnace_agent.llm.anthropic import request as messages
    from pinnace_agent.llm.openai_chat import compat as chat_compat
    from pinnace_agent.llm.openai_chat import request as chat
    from pinnace_agent.llm.openai_responses import compat as responses_compat
    from pinnace_agent.llm.openai_responses import request as responses

    with surrounded_by(Surroundings({})):
        match request.model["api"]:
            case "anthropic-messages":
                return messages.http_request(request, messages_compat.compat_of(request.model))
            case "openai-completions":
                return chat.http_request(request, chat_compat.compat_of(request.model))
            case _:
                return responses.http_request(request, responses_compat.compat_of(request.model))


def sent(case: ProviderCase) -> Record:
    """Return what we send for a case."""
    request, builder = request_of(case)
    assert request is not None, builder.message
    http = http_request_of(request)
    headers = {name.lower(): value for name, value in http.headers.items()}
    return {"url": http.url, "headers": headers, "body": json.loads(http.body)}


def compared(answer: Record, case: ProviderCase) -> Any:
    """Return what must be equal.

    That is all but headers of a client's own, the switch of its beta, made up ids, and what `_OF_OUR_API` has.
    """
    headers = {name: value for name, value in answer["headers"].items() if name not in _CLIENTS_OWN}
    if headers.get("user-agent", "").startswith("pi/"):
        del headers["user-agent"]
    names = _OF_OUR_API.get(case.model["api"], frozenset())
    return answer["url"].removesuffix("?beta=true"), headers, _without(plain_ids(answer["body"], case), names)


def _without(value: object, names: Set[str]) -> object:
    if isinstance(value, dict):
        members = cast("dict[str, object]", value)
        return {name: _without(member, names) for name, member in members.items() if name not in names}
    if isinstance(value, list):
        return [_without(each, names) for each in cast("list[object]", value)]
    return value
