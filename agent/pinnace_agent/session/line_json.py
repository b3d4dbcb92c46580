"""Messages to one JSON array, those of a long session straight from the lines of its file.

Pure. What a line holds has been compared with what a message may be (`line_shape`), so its bytes are what encoding the
decoded message would give, but for blanks and escapes. Imports msgspec: as `line_shape`, for long sessions.
"""

from collections.abc import Iterable, Iterator

import msgspec

from pinnace_agent.session.entry_list import StoredMessage
from pinnace_spec.messages import Message
from pinnace_spec.wire import EncodedArray, encode_value


class _Line(msgspec.Struct, gc=False):
    message: msgspec.Raw


def encoded_messages(items: Iterable[StoredMessage | Message]) -> EncodedArray:
    """Encode messages, of which some are lines. What came from lines is not copied."""
    return EncodedArray(_pieces(items))


def _pieces(items: Iterable[StoredMessage | Message]) -> Iterator[bytes | msgspec.Raw]:
    """Give each message as JSON. Lines that follow each other are read in one call."""
    read = msgspec.json.Decoder(_Line).decode_lines
    source, start, end = b"", 0, 0

    def messages_read() -> Iterator[msgspec.Raw]:
        return (line.message for line in read(memoryview(source)[start:end]))

    for item in items:
        if isinstance(item, StoredMessage):
            if item[0] is source and item[1] == end + 1:  # behind the LF of the line before
                end = item[2]
                continue
            yield from messages_read()
            source, start, end = item[:3]
        else:
            yield from messages_read()
            source, start, end = b"", 0, 0
            yield encode_value(item)
    yield from messages_read()
