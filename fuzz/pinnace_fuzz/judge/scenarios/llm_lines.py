"""Reads the model's lines of a scenario: one for each request, in the words of the format.

    text          one delta or a list of them; in a list also {gate: g}: the answer stops there
    thinking      the same, of thinking
    tool          {name, args} or a list of them: calls of tools
    gate          the answer stops before its first byte, until the script opens this gate
    error         a status, or {status, message?, headers?}: refused instead of answered, in the words of the vendor
    overflow      true: refused since the conversation is too long
    cut           rst or fin: the connection ends after what stands above
    stall         true: nothing more comes after what stands above, and the connection stays
    request       {last_user, has, lacks, roles}: what the request must be
    finish usage chunks gen done refuse gzip cut_bytes headers match repeat     as in `harness.model_server.short_form`

Pure.
"""

from collections.abc import Mapping
from typing import Any

from pinnace_fuzz.harness.model_server.short_form import read_response
from pinnace_fuzz.judge.scenarios.fields import FieldError, Fields, texts
from pinnace_fuzz.judge.scenarios.scenario import LlmAnswer, RequestCheck
from pinnace_fuzz.judge.scenarios.yaml_lines import Path
from pinnace_fuzz.script import ScriptError

_AS_THEY_ARE = ("finish", "usage", "chunks", "gen", "done", "refuse", "gzip", "cut_bytes", "headers", "match", "repeat")
_MESSAGES: Mapping[int, str] = {
    400: "Invalid value in the request",
    401: "Incorrect API key provided",
    403: "You do not have access to this model",
    404: "The model does not exist",
    429: "Rate limit exceeded, please try again later",
    500: "Internal server error",
    503: "Service unavailable",
    529: "Overloaded",
}
# In the vendor's words: agents recognise an overflow by them.
_OVERFLOW = "Your input exceeds the context window of this model. Please adjust your input and try again."


def read_llm(value: Any, path: Path) -> LlmAnswer:
    """Read one line.

    Raises:
        FieldError: It does not match the format of this module's docstring.
    """
    fields = Fields(value, path)
    answer: dict[str, Any] = {}
    for key in ("text", "thinking"):
        if fields.has(key):
            answer["reasoning" if key == "thinking" else key] = fields.take(key)
    if fields.has("tool"):
        tools = fields.take("tool")
        answer["tool_calls"] = tools if isinstance(tools, list) else [tools]
    if fields.has("gate"):
        answer["hold"] = fields.needed("gate")
    if fields.has("error"):
        answer["error"] = _error(fields)
    if fields.flag("overflow"):
        answer["error"] = {"status": 400, "message": _OVERFLOW, "code": "context_length_exceeded"}
    for key in _AS_THEY_ARE:
        if fields.has(key):
            answer[key] = fields.take(key)
    ending = _ending(fields)
    check = _check(fields.mapping("request"), (*path, "request")) if fields.has("request") else None
    fields.finish()
    _append(answer, ending)
    try:
        read_response(answer, 0)
    except ScriptError as error:
        raise FieldError(path, str(error)) from None
    return LlmAnswer(answer, check)


def _ending(fields: Fields) -> list[dict[str, Any]]:
    if fields.has("cut"):
        return [{"disconnect": fields.word("cut", ("rst", "fin"))}]
    return [{"hang": True}] if fields.flag("stall") else []


def _append(answer: dict[str, Any], ending: list[dict[str, Any]]) -> None:
    if not ending:
        return
    key = "chunks" if "chunks" in answer else "text"
    before = answer.get(key, [])
    answer[key] = [*(before if isinstance(before, list) else [before]), *ending]


def _error(fields: Fields) -> dict[str, Any]:
    value = fields.take("error")
    inner = Fields({"status": value} if isinstance(value, int) else value, (*fields.path, "error"))
    status = inner.count("status", 500)
    message = inner.text("message", _MESSAGES.get(status, f"status {status}"))
    headers = inner.text_map("headers")
    inner.finish()
    return {"status": status, "headers": headers, "message": message}


def _check(value: Any, path: Path) -> RequestCheck:
    fields = Fields(value, path)
    roles = texts(fields.take("roles"), (*path, "roles")) if fields.has("roles") else None
    found = RequestCheck(
        last_user=fields.text("last_user") if fields.has("last_user") else None,
        has=fields.texts("has"),
        lacks=fields.texts("lacks"),
        roles=roles,
    )
    fields.finish()
    return found
