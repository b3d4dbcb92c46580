"""Events that repeat one before them: read by their string alone, they say what they would say if parsed."""

import json
import re
from collections.abc import Iterable, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.agent.llm.recording import Recorder
from tests.agent.samples import prices, served_model

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_agent.llm.failures import FailureTexts
from pinnace_agent.llm.openai_chat.compat import compat_of
from pinnace_agent.llm.openai_chat.repeated_event import RepeatedEvent
from pinnace_agent.llm.openai_chat.stream import ChunkReader
from pinnace_agent.llm.transport.sse import SseEvent
from pinnace_agent.redaction.secrets import Secrets
from pinnace_spec.records.messages import AssistantMessage

MODEL = served_model(reasoning=True, cost=prices(1, 2, 0.5, 4))
STOP = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
TEXTS = st.text(st.characters(codec="utf-8"), max_size=12)
# What stands in the way of who looks for a string's place by its bytes.
TRICKY = st.sampled_from(["", ":", ",", '"', "\\", '\\"', '","content":"x', "}", "a", "id", "content", "\u2028", "\0"])
# Arguments that are complete: the next call may begin.
WHOLE = st.sampled_from(["", "{}", '{"a":1}'])
PIECES = st.lists(TEXTS | TRICKY, max_size=12)


def content(piece: str, **more: object) -> dict[str, object]:
    return {"id": "a", "model": "m1", "choices": [{"index": 0, "delta": {"content": piece, **more}}]}


def thought(piece: str) -> dict[str, object]:
    return {"id": "a", "choices": [{"delta": {"content": "", "reasoning_content": piece}, "finish_reason": None}]}


def arguments(piece: str, index: int = 0) -> dict[str, object]:
    return {"id": "a", "choices": [{"delta": {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}}]}


def opened(index: int, call_id: str | None = None, name: str = "write", begun: str = "") -> dict[str, object]:
    call = {"index": index, "id": call_id or f"c{index}", "function": {"name": name, "arguments": begun}}
    return {"choices": [{"delta": {"tool_calls": [call]}}]}


def named(index: int | None, call_id: str | None, name: str | None, piece: str) -> dict[str, object]:
    """Return a piece of a call of a gateway that leaves out the index, or makes up another id each time."""
    members = {"index": index, "id": call_id, "function": {"name": name, "arguments": piece}}
    return {"id": "a", "choices": [{"delta": {"tool_calls": [members]}}]}


class Parsing(RepeatedEvent):
    """Never takes one."""

    def take(self, data: bytes) -> bool:
        return False


Reading = tuple[list[Mapping[str, object]], AssistantMessage]


def read(chunks: Iterable[bytes], *, is_parsing: bool = False) -> Reading:
    """Read events, each of them parsed or as the program does; return what was reported, and the message."""
    recorder = Recorder()
    builder = MessageBuilder(MODEL, recorder, 0)
    builder.start()
    reader = ChunkReader(builder, compat_of(MODEL), FailureTexts(Secrets("sk-secret-key")))
    if is_parsing:
        reader._repeated = Parsing()
    for data in chunks:
        reader.read(SseEvent(b"", data))
    reader.finish()
    return _with_numbered_ids((recorder.events, builder.message))


def _with_numbered_ids(result: Reading) -> Reading:
    """Put numbers in the place of the ids that the reader made up."""
    made_up = re.compile(r"call_[0-9a-f]{32}")
    text = json.dumps(result)
    numbers = {found: f"made up {number}" for number, found in enumerate(dict.fromkeys(made_up.findall(text)))}
    events, message = json.loads(made_up.sub(lambda found: numbers[found.group()], text))
    return events, message


EVENTS = st.one_of(
    st.builds(content, TEXTS | TRICKY),
    st.builds(content, TEXTS | TRICKY, role=st.just("assistant"), refusal=st.just(None)),
    st.builds(thought, TEXTS | TRICKY),
    st.builds(arguments, TEXTS | TRICKY | WHOLE, st.integers(0, 1)),
    # Gateways that give every call the same index.
    st.builds(
        opened, st.integers(0, 1), st.sampled_from(["c0", "c5", "c6"]), st.sampled_from(["write", "read"]), WHOLE
    ),
    st.builds(
        named,
        st.none() | st.integers(0, 2),
        st.none() | st.sampled_from(["c0", "c1", "c7"]),
        st.none() | st.sampled_from(["write", "read"]),
        TEXTS | WHOLE,
    ),
    st.just({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 4}}),
    st.just({"choices": [{"delta": {"content": "a"}}], "usage": {"prompt_tokens": 5}}),
    st.just({"choices": [{"delta": {"content": "a"}, "logprobs": {"content": [{"token": "a"}]}}]}),
)
RUNS = st.lists(st.tuples(EVENTS, st.integers(1, 5)), max_size=8)


@given(RUNS, st.booleans(), st.booleans())
def test_a_stream_says_the_same_whether_each_event_is_parsed_or_not(
    runs: list[tuple[dict[str, object], int]], is_ascii: bool, is_compact: bool
) -> None:
    separators = (",", ":") if is_compact else (", ", ": ")
    chunks = [opened(0), opened(1), *(event for event, times in runs for _ in range(times)), STOP]
    stream = [json.dumps(each, ensure_ascii=is_ascii, separators=separators).encode() for each in chunks]

    assert read(stream) == read(stream, is_parsing=True)


def test_the_pieces_of_a_call_go_to_the_one_that_has_its_index_now() -> None:
    """A gateway gives every call the index 0: pieces of the second must not be added to the first."""
    first = [opened(0, "c0"), arguments('{"path":'), arguments('"a'), arguments('"'), arguments("}")]
    second = [opened(0, "c5", "read"), arguments('{"path":'), arguments('"b"'), arguments("}")]
    _, message = read([json.dumps(each).encode() for each in [*first, *second, STOP]])

    assert [(call["name"], call["arguments"]) for call in message["content"] if call["type"] == "toolCall"] == [
        ("write", {"path": "a"}),
        ("read", {"path": "b"}),
    ]


@given(PIECES, st.booleans())
def test_all_pieces_of_a_text_are_reported(pieces: list[str], is_ascii: bool) -> None:
    stream = [json.dumps(content(piece), ensure_ascii=is_ascii).encode() for piece in ["a", "b", "c", *pieces]]
    events, _ = read(stream)

    assert [event["delta"] for event in events if "delta" in event] == [
        piece for piece in ["a", "b", "c", *pieces] if piece
    ]


class Taken:
    """An event that was learned, and what was made of others."""

    def __init__(self, data: bytes = b'{"a":"x","b":"y"}', path: tuple[str | int, ...] = ("b",)) -> None:
        self.texts: list[str] = []
        self.event = RepeatedEvent()
        self.event.learn(data, path, self.texts.append)

    def take(self, data: bytes) -> str | None:
        return self.texts.pop() if self.event.take(data) else None


def test_a_repetition_is_read_by_its_string() -> None:
    assert Taken().take(b'{"a":"x","b":"other \\u00e9 \\"text\\""}') == 'other é "text"'
    assert Taken().take(b'{"a":"x","b":""}') == ""


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":"z","b":"y"}',
        b'{"a":"x","b":"y","c":"z"}',
        b'{"a":"x","b":"y","b":"z"}',
        b'{"a":"x","b":"}',
        b'{"a":"x","b":',
        b'{"a":"x","b":"\xff"}',
        b'{"a":"x","b":"\\ud800"}',
        b'{"a":"x","b":"a\nb"}',
        b"",
    ],
    ids=range(9),
)
def test_what_differs_anywhere_else_is_not_taken(data: bytes) -> None:
    assert Taken().take(data) is None


@pytest.mark.parametrize(
    ("data", "path"),
    [
        (b'{"b":"y","c":"y"}', ("b",)),  # the last string like it is another
        (b'{"b":"\\u0079"}', ("b",)),  # written otherwise than we would
        (b'{"b":1}', ("b",)),
        (b'{"b":"y"}', ("c",)),
        (b'{"b":"y"}', ("b", "c")),
        (b'{"x":":","y":"z"}', ("x",)),  # also between two others
        (b"no JSON", ("b",)),
        (b'["\\ud800"]', (0,)),
    ],
    ids=range(8),
)
def test_an_ambiguous_event_is_not_learned(data: bytes, path: tuple[str | int, ...]) -> None:
    taken = Taken(data, path)

    assert taken.take(data) is None
    assert taken.texts == []


def test_where_no_event_repeats_another_learning_becomes_rare() -> None:
    event, learned = RepeatedEvent(), 0
    for number in range(1_000):
        data = b'{"n":%d,"b":"y"}' % number
        assert not event.take(data)
        if event.is_due:
            learned += 1
            event.learn(data, ("b",), lambda _: None)

    assert learned == 9
