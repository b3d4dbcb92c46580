"""Provider: the Responses of a ChatGPT plan, as Codex and pi ask for them: `openai-codex-responses`.

Decides the address, the headers and the body of a request, and words refusals for a used up plan. The key is the access
token of a login (`config.credentials.codex_login`), which names the account. The server wants instructions beside the
input, and takes no limit of the output. Answers are streamed as events over HTTP; the WebSocket that the original
prefers is not used, nor is the body compressed. Items and events are those of OpenAI Responses.
"""

import base64
import json
import time
from functools import partial
from typing import Final

from pinnace_agent.core.json_access import as_amount, as_object, as_text, compact_body
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.failures import FailureTexts, RefusedResponse
from pinnace_agent.llm.openai_responses.compat import compat_of
from pinnace_agent.llm.openai_responses.messages import Wire, input_items
from pinnace_agent.llm.openai_responses.provider import refusal_form
from pinnace_agent.llm.openai_responses.request import cache_key, wire_tools
from pinnace_agent.llm.openai_responses.stream import ResponseReader
from pinnace_agent.llm.request import LlmRequest, secrets_of
from pinnace_agent.llm.transport.exchange import exchange
from pinnace_agent.llm.transport.request import HttpRequest, configured_fields, merged_headers, retention
from pinnace_spec.wire.json_text import WireError, decode_line

_ORIGINATOR: Final = "pinnace"
_CLAIMS: Final = "https://api.openai.com/auth"
# The server refuses a request without any.
_INSTRUCTIONS: Final = "Help the user."
_USED_UP: Final = frozenset({"usage_limit_reached", "usage_not_included", "rate_limit_exceeded"})
_NO_ACCOUNT: Final = (
    "The key of {provider} must be the access token of a ChatGPT login: pinnace auth login openai-codex --device-code"
)


class OpenAICodexResponsesProvider:
    """Speaks `openai-codex-responses`."""

    async def stream(self, request: LlmRequest, builder: MessageBuilder) -> None:
        """Ask for one answer and build it. As `Provider.stream`."""
        texts = CodexFailureTexts(secrets_of(request), refusal_form(request.model["provider"]))
        account_id = account_of(request.api_key or "")
        if account_id is None:
            builder.refuse("authentication", _NO_ACCOUNT.format(provider=request.model["provider"]))
            return
        make = partial(http_request, request, account_id)
        await exchange(request, builder, make, ResponseReader(builder, texts), texts)


def account_of(token: str) -> str | None:
    """Return the id of the account that an access token names, without checking its signature; None: it names none."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = as_object(json.loads(base64.urlsafe_b64decode(parts[1] + "==")))
    except (ValueError, RecursionError):
        return None
    account_id = as_text((as_object((claims or {}).get(_CLAIMS)) or {}).get("chatgpt_account_id"))
    return account_id if account_id and account_id.isascii() and account_id.isprintable() else None


def http_request(request: LlmRequest, account_id: str) -> HttpRequest:
    """Put a request together."""
    return HttpRequest(
        url=_url(request.model["baseUrl"]),
        headers=_headers(request, account_id),
        body=compact_body(request_body(request)),
    )


def request_body(request: LlmRequest) -> Wire:
    """Return the body; fields of the user's configuration are last."""
    model, compat = request.model, compat_of(request.model)
    body: Wire = {
        "model": model["id"],
        "store": False,
        "stream": True,
        "instructions": request.system_prompt or _INSTRUCTIONS,
        "input": input_items("", request.messages, model, compat),
        "text": {"verbosity": "low"},
        "include": ["reasoning.encrypted_content"],
        "tool_choice": "auto",
        "parallel_tool_calls": True,
    }
    if retention() != "none":
        body |= cache_key(request)
    if request.tools:
        # Null: the server decides by the schema.
        body["tools"] = wire_tools(request.tools, compat, {"strict": None} if compat.supports_strict_mode else {})
    if reasoning := _reasoning(request):
        body["reasoning"] = reasoning
    return body | configured_fields(model, request.thinking_level)


def _url(base_url: str) -> str:
    """Return the address of the requests; the path may be a part of the address already."""
    base = base_url.strip().rstrip("/")
    if base.endswith("/codex/responses"):
        return base
    return f"{base}/responses" if base.endswith("/codex") else f"{base}/codex/responses"


def _headers(request: LlmRequest, account_id: str) -> dict[str, str]:
    headers = {
        "Authorization": f"Bearer {request.api_key}",
        "chatgpt-account-id": account_id,
        "originator": _ORIGINATOR,
        "OpenAI-Beta": "responses=experimental",
        "Accept": "text/event-stream",
        "Content-Type": "application/json",
    }
    if retention() != "none" and (name := as_text(cache_key(request).get("prompt_cache_key"))):
        headers["session-id"] = headers["x-client-request-id"] = name
    return merged_headers(headers, request.headers)


def _reasoning(request: LlmRequest) -> Wire:
    """Return the thinking level; empty if the model has none, or its word for this level is null."""
    model, level = request.model, request.thinking_level
    word = (model.get("thinkingLevelMap") or {}).get(level, "none" if level == "off" else level)
    if not model["reasoning"] or not word:
        return {}
    return {"effort": word} if level == "off" else {"effort": word, "summary": "auto"}


class CodexFailureTexts(FailureTexts):
    """Formats the errors of one request; one for a used up plan says so, and when it can be used again."""

    def refused(self, response: RefusedResponse) -> str:
        """Return the error for a response whose status is not a success. As of `FailureTexts`.

        `outcomes` takes a usage limit for final, so the request is not sent again, as by the original.
        """
        text = super().refused(response)
        try:
            error = as_object((as_object(decode_line(response.body)) or {}).get("error"))
        except WireError:
            error = None
        if error is None or not (response.status == 429 or _USED_UP.intersection(self.signs.codes)):
            return text
        plan = as_text(error.get("plan_type"))
        resets_s = as_amount(error.get("resets_at"))
        named = f" ({self.shown(plan.lower(), 50)})" if plan else ""
        wait = "" if resets_s is None else f", for about {max(0, round((resets_s - time.time()) / 60))} min"
        return f"The usage limit of your ChatGPT plan{named} is reached{wait}"
