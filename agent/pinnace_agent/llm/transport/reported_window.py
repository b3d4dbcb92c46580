"""Asks a model's server how many tokens its context window has.

vLLM and servers like it report `max_model_len` or `context_length` for each model at `GET {baseUrl}/models`; llama.cpp
reports `n_ctx` of a slot at `GET /props`. Nothing is generated, so nothing is charged. Independent of the use of the
answer; after any error there is none. Not for start-up: it uses the HTTP client.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import orjson
import trio

from pinnace_agent.core.json_access import as_array, as_object
from pinnace_agent.llm.transport.client import client_for
from pinnace_agent.llm.transport.proxies import ProxyUnusable
from pinnace_agent.llm.transport.request import merged_headers

if TYPE_CHECKING:
    import httpx

TIMEOUT_S: Final = 2.0
"""For both questions together. A server that is busy with a request need not be waited for."""
MAX_BYTES: Final = 1024 * 1024
"""Of one answer; lists of all models of a gateway may be longer, and are not read."""
_OK: Final = 200
_FIELDS: Final = ("max_model_len", "context_length", "context_window", "loaded_context_length")


async def reported_window(base_url: str, model_id: str, api_key: str | None, headers: Mapping[str, str]) -> int | None:
    """Return the context window that a model's server reports, in tokens; None: it reports none in time.

    Args:
        base_url: As of the model; ends in `/v1`, most often.
        model_id: The name by which the server knows the model.
        api_key: Sent as requests to the model send it.
        headers: Those that are configured for requests to the model.
    """
    own = {"Accept": "application/json", "Accept-Encoding": "identity"}
    sent = merged_headers(own if api_key is None else {**own, "Authorization": f"Bearer {api_key}"}, headers)
    base = base_url.rstrip("/")
    window: int | None = None
    with trio.move_on_after(TIMEOUT_S):
        listed = await _get(f"{base}/models", base_url, sent)
        window = _of_list(listed, model_id)
        if window is None:
            window = _of_props(await _get(f"{base.removesuffix('/v1')}/props", base_url, sent))
    return window


async def _get(url: str, base_url: str, headers: Mapping[str, str]) -> object:
    """Return the JSON at an address; None: there is no usable one."""
    import httpx

    try:
        client = await client_for(base_url)
        response = await client.send(client.build_request("GET", url, headers=dict(headers)), stream=True)
        try:
            body = await _body(response)
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 0.1):
                await response.aclose()
        return orjson.loads(body) if response.status_code == _OK else None
    except (httpx.HTTPError, httpx.InvalidURL, OSError, ProxyUnusable, ValueError, TypeError):
        return None


async def _body(response: "httpx.Response") -> bytes:
    body = bytearray()
    length = response.headers.get("content-length", "0")
    if response.status_code != _OK or not length.isdecimal() or int(length) > MAX_BYTES:
        return b""
    async for piece in response.aiter_raw():
        if len(body) <= MAX_BYTES:  # the rest is read and dropped, until the time is over
            body += piece
    return bytes(body)


def _of_list(answer: object, model_id: str) -> int | None:
    models = [each for each in map(as_object, as_array((as_object(answer) or {}).get("data"))) if each is not None]
    own = [each for each in models if each.get("id") == model_id]
    if not own and len(models) == 1:  # a single model, under any name
        own = models
    for each in own:
        for name in _FIELDS:
            if (tokens := _tokens(each.get(name))) is not None:
                return tokens
    return None


def _of_props(answer: object) -> int | None:
    settings = as_object((as_object(answer) or {}).get("default_generation_settings")) or {}
    return _tokens(settings.get("n_ctx"))


def _tokens(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
