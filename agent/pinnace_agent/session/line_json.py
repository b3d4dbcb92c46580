"""Messages to one JSON array, those of a long session straight from the lines of its file.

Pure. What a line holds has been compared with what a message may be (`line_shape`), so its bytes are what encoding the
decoded message would give, but for blanks and escapes. Imports msgspec: as `line_shape`, for long sessions.
"""

from collections.abc import Iterable

import msgspec
import orjson

from pinnace_agent.session.entry_list import StoredMessage
from pinnace_spec.messages import Message
from pinnace_spec.wire import encode_value


class _Line(msgspec.Struct, gc=False):
    message: msgspec.Raw


def encoded_messages(items: Iterable[StoredMessage | Message]) -> orjson.Fragment:
    """Encode messages, of which some are lines."""
    read = msgspec.json.Decoder(_Line).decode
    pieces = [read(item.line).message if isinstance(item, StoredMessage) else encode_value(item) for item in items]
    return orjson.Fragment(b"[%b]" % b",".join(pieces))
