"""The JSON in an event of a stream.

Pure. Decides what of it can be read. Must not know any API.
"""

import orjson

from pinnace_agent.llm.failures import FailureTexts
from pinnace_agent.llm.http_exchange import UnreadableEvent
from pinnace_spec.wire import WireError, decode_line


def event_value(data: bytes, texts: FailureTexts) -> object:
    """Return what an event says; None if it is blank and says nothing.

    Raises:
        UnreadableEvent: It is no JSON, as `texts` words it.
    """
    try:
        return orjson.loads(data)
    except orjson.JSONDecodeError:
        if not data.strip():
            return None
    try:  # half a character is JSON, but not to orjson
        return decode_line(data)
    except WireError as error:
        raise UnreadableEvent(texts.unreadable_chunk(error.text, data)) from None
