"""Fast paths of the stream readers: whatever they take means what the slow path makes of it.

That of repeated events of chat completions is in `test_llm_repeated_event`, that of joined chunks in
`test_llm_chunk_joining`.
"""

import json
from unittest.mock import patch

import orjson
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.llm.recording import Recorder
from tests.agent.samples import served_model

from pinnace_agent.llm.anthropic.stream import EventReader
from pinnace_agent.llm.anthropic.tool_names import ToolNames
from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.failures import FailureTexts
from pinnace_agent.llm.transport.exchange import StreamBroken, event_value
from pinnace_agent.llm.transport.sse import SseEvent
from pinnace_agent.redaction.secrets import Secrets

TEXTS = FailureTexts(Secrets("sk-secret-key"))
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    SCALARS | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


class Refusing:
    """A fast decoder that takes nothing."""

    JSONDecodeError = orjson.JSONDecodeError

    @staticmethod
    def loads(data: bytes) -> object:
        raise orjson.JSONDecodeError("nothing", "", 0)


@given(VALUES, st.booleans(), st.sampled_from([(",", ":"), (", ", ": ")]))
def test_an_event_has_the_same_value_for_both_decoders(
    value: object, is_ascii: bool, separators: tuple[str, str]
) -> None:
    data = json.dumps(value, ensure_ascii=is_ascii, separators=separators).encode(errors="replace")
    fast = event_value(data, TEXTS)
    with patch("pinnace_agent.llm.transport.exchange.orjson", Refusing):
        assert event_value(data, TEXTS) == fast


PIECES = st.sampled_from(["", "a", '{"x":', "1}", "\\", "\n", "\u2028", '"']) | st.text(max_size=5)
DELTAS = st.one_of(
    st.fixed_dictionaries({"type": st.just("text_delta"), "text": PIECES}),
    st.fixed_dictionaries({"type": st.just("thinking_delta"), "thinking": PIECES}),
    st.fixed_dictionaries({"type": st.just("signature_delta"), "signature": PIECES}),
    st.fixed_dictionaries({"type": st.just("input_json_delta"), "partial_json": PIECES}),
)
STARTS = st.one_of(
    st.fixed_dictionaries({"type": st.just("text"), "text": PIECES}),
    st.fixed_dictionaries({"type": st.just("thinking"), "thinking": PIECES}),
    st.builds(lambda n, name: {"type": "tool_use", "id": f"c{n}", "name": name}, st.integers(0, 99), PIECES),
)
INDEXES = st.none() | st.integers(0, 2)
EVENTS = st.one_of(
    st.builds(lambda at, part: {"type": "content_block_start", "index": at, "content_block": part}, INDEXES, STARTS),
    st.builds(lambda at, part: {"type": "content_block_delta", "index": at, "delta": part}, INDEXES, DELTAS),
    st.builds(lambda at: {"type": "content_block_stop", "index": at}, INDEXES),
)


def told(stream: list[bytes]) -> object:
    """Return what is reported of a stream of Anthropic's, and how often a call got an id that was made up."""
    recorder = Recorder()
    builder = MessageBuilder(served_model(), recorder, 0)
    builder.start()
    reader = EventReader(builder, ToolNames([], is_login=False), TEXTS)
    for data in stream:
        try:
            reader.read(SseEvent(b"", data))
        except StreamBroken as broken:
            return recorder.events, str(broken)
    reader.finish()
    return recorder.events, builder.message


@given(st.lists(EVENTS, max_size=10))
def test_a_stream_of_blocks_says_the_same_for_both_decoders(events: list[dict[str, object]]) -> None:
    ends: list[dict[str, object]] = [
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
        {"type": "message_stop"},
    ]
    stream = [json.dumps(each).encode() for each in [*events, *ends]]
    with patch("pinnace_agent.llm.anthropic.stream.uuid.uuid4") as made:
        made.return_value.hex = "0"
        fast = told(stream)
        with patch("pinnace_agent.llm.anthropic.stream.orjson", Refusing):
            assert told(stream) == fast
