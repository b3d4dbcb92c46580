"""A request over HTTP in which somebody else has a say: its headers, its body, and what is told of the answer.

The same for every API: bodies and events are read as the JSON that they are. Must not know who has the say.
"""

import json
from collections.abc import Iterable

from pinnace_agent.llm.base import RequestHooks
from pinnace_agent.llm.http_request import HttpRequest
from pinnace_agent.llm.json_edge import as_object, compact_body
from pinnace_agent.llm.sse import SseEvent


class UnsendableBody(Exception):
    """What a body was replaced by can't be sent; the text says why."""


class RefusedRequest(Exception):
    """Somebody who has a say can't be understood, so nothing is sent; the text says why."""


async def as_hooks_want(hooks: RequestHooks, http: HttpRequest) -> HttpRequest:
    """Return a request as others want it.

    Raises:
        UnsendableBody: They want one that no provider could read.
        RefusedRequest: What they want can't be understood.
    """
    http = http._replace(headers=await hooks.headers(http.headers))
    if not hooks.wants_payload:
        return http
    # The very body that would go out, whatever API it is of.
    body = as_object(await hooks.payload(json.loads(http.body)))
    if body is None:
        raise UnsendableBody("it is no object")
    try:
        return http._replace(body=compact_body(body))
    except (TypeError, ValueError, RecursionError) as error:
        raise UnsendableBody(str(error)) from error


async def tell_events(hooks: RequestHooks, events: Iterable[SseEvent]) -> None:
    """Tell events of the stream; what is no JSON, such as the mark of its end, is none of the provider's."""
    for event in events:
        if not hooks.hears_stream:
            return
        try:
            data = json.loads(event.data)
        except (ValueError, RecursionError):
            continue
        await hooks.streamed(data)
