"""No form of a known key is in what is written; what holds none is written as it is.

Forms: the key itself, escaped for JSON, URL-encoded, in hexadecimal, in base64 at each of its three alignments, and the
first and last parts of these from eight characters of the key on.
"""

import base64
import json
import string
from collections.abc import Callable, Iterator
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pinnace_agent.redaction.forms import forms_of
from pinnace_agent.redaction.growing import GrowingMessage, GrowingText
from pinnace_agent.redaction.policy import REDACTED
from pinnace_agent.redaction.redactor import Redactor
from pinnace_agent.redaction.search import Search

KEY = "sk-ant-api03-Zq8_vT4x-9LmN2bW7rYcK5pD"
ENCODINGS: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "json": lambda text: json.dumps(text)[1:-1],
    "json twice": lambda text: json.dumps(json.dumps(text))[3:-3],
    "url": lambda text: quote(text, safe=""),
    "url, lower": lambda text: "".join(f"%{ord(each):02x}" for each in text),
    "url, all": lambda text: "".join(f"%{ord(each):02X}" for each in text),
    "url, form": quote_plus,
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64, one byte before": lambda text: base64.b64encode(b":" + text.encode() + b"\n").decode(),
    "base64, two bytes before": lambda text: base64.b64encode(b"u:" + text.encode() + b"\n\n").decode(),
    "base64, url-safe": lambda text: base64.urlsafe_b64encode(b"\xff\xfe" + text.encode()).decode(),
}

alphabet = string.ascii_letters + string.digits
# As keys are: most of them letters and digits, some with what has to be escaped somewhere.
keys = st.one_of(
    st.text(alphabet + "_-", min_size=16, max_size=60),
    st.text(alphabet + string.punctuation + " ", min_size=16, max_size=40).map(str.strip),
).filter(lambda key: len(key) >= 16 and len(set(key)) > 8 and [(8, 8)] == [each[1:3] for each in forms_of(key)[:1]])
texts = st.text(max_size=20)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def knowing(*keys: str) -> Redactor:
    redactor = Redactor()
    redactor.learn(*keys)
    return redactor


def encoded(record: object) -> bytes:
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def strings_in(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for name, member in value.items():
                yield name
                yield from strings_in(member)
        case list():
            for member in value:
                yield from strings_in(member)
        case _:
            pass


def fully_decided(name: str, key: str) -> str:
    """Return what an encoding makes of a key, without what is beside it."""
    whole = ENCODINGS[name](key)
    return whole[3:-4] if name.startswith("base64") else whole


@settings(max_examples=60)
@given(keys, st.sampled_from(sorted(ENCODINGS)), values, texts, texts)
@example('aB3"\\/+= &%#9', "json", None, "\\", '"')
def test_no_form_of_a_key_is_in_a_redacted_record_and_the_record_is_still_valid(
    key: str, encoding: str, value: object, before: str, after: str
) -> None:
    form = ENCODINGS[encoding](key)
    line = encoded({"type": "message_end", "value": value, "said": before + form + after, f"a {form}": [form]})

    shown = knowing(key).line(line)

    read = json.loads(shown)
    assert read["type"] == "message_end"
    assert fully_decided(encoding, key) not in shown.decode()
    assert not any(fully_decided(encoding, key) in text for text in strings_in(read))
    assert json.loads(line).keys() - read.keys() == {f"a {form}"}


@settings(max_examples=60)
@given(keys, values, texts)
def test_a_record_without_keys_is_written_byte_for_byte(key: str, value: object, text: str) -> None:
    line = encoded({"type": "message_end", "value": value, "text": text})
    redactor = knowing(key)
    assume(not any(redactor.spans(each) for each in strings_in(json.loads(line))))

    assert line == redactor.line(line)
    assert text == redactor.text(text)


@settings(max_examples=40)
@given(keys, st.sampled_from(sorted(ENCODINGS)), st.integers(8, 40), st.booleans())
def test_a_first_or_last_part_of_eight_characters_is_redacted(key: str, encoding: str, size: int, first: bool) -> None:
    part = key[:size] if first else key[-size:]
    shown = knowing(key).text(f"<{ENCODINGS[encoding](part)}>")

    assert REDACTED in shown
    assert fully_decided(encoding, part) not in shown


@settings(max_examples=40)
@given(keys.filter(lambda key: "[" not in key), st.text(alphabet, max_size=5), st.data())
def test_a_key_in_pieces_is_redacted_but_for_seven_characters(key: str, before: str, data: st.DataObject) -> None:
    said = f"{before} {key} after"
    growing = GrowingText(knowing(key))
    pieces: list[str] = []
    left = said
    while left:
        size = data.draw(st.integers(1, 6), label="size")
        pieces.append(growing.add(left[:size]))
        left = left[size:]

    shown = "".join(pieces)
    assert not any(key[place : place + 8] in shown for place in range(len(key) - 7))
    assert shown.startswith(before)
    assert shown.endswith(" after")


def test_pieces_without_a_key_are_what_they_were() -> None:
    growing = GrowingText(knowing(KEY))

    assert ["sk-ant", "-api03-", " is how keys begin", KEY[:15]] == [
        growing.add(piece) for piece in ("sk-ant", "-api03-", " is how keys begin", KEY[:15])
    ]


def test_blocks_that_grow_in_turns_are_looked_at_one_by_one() -> None:
    growing = GrowingMessage(knowing(KEY))
    assert growing.take([{"type": "text_start", "contentIndex": at} for at in (0, 1)]) is None

    halves = KEY[:14], KEY[14:20]
    shown = growing.take(
        [
            {"type": "text_delta", "contentIndex": 0, "delta": halves[0]},
            {"type": "text_delta", "contentIndex": 1, "delta": "other"},
            {"type": "text_delta", "contentIndex": 0, "delta": halves[1]},
        ]
    )

    assert [halves[0], "other", REDACTED] == shown


@pytest.mark.parametrize(
    "text",
    [
        "keys of this vendor begin with sk-ant-api03-",
        "sk-ant-oat01-xxxx",
        '{"type": "toolCallId"}',
        "Zq8_vT4",  # seven characters
    ],
)
def test_what_says_nothing_about_a_key_stays(text: str) -> None:
    assert text == knowing(KEY, "toolCallId-7Hq2").text(text)


@pytest.mark.parametrize("key", ["none", "lm-studio", "not-needed", "1234567", "required"])
def test_short_keys_and_placeholders_of_servers_without_keys_are_not_looked_for(key: str) -> None:
    assert f"is {key} set" == knowing(key).text(f"is {key} set")


def test_a_placeholder_costs_nothing() -> None:
    redactor = knowing("lm-studio")
    assert b"{}\n" == redactor.line(b"{}\n")

    assert not redactor.is_active
    redactor.learn(KEY)
    assert redactor.is_active


def test_a_growing_text_keeps_no_more_than_the_longest_form() -> None:
    for redactor in (knowing(KEY), knowing("lm-studio")):
        growing = GrowingText(redactor)
        for _ in range(100):
            growing.is_clean("x" * 100)
        assert len(growing.tail) <= 3 * len(KEY)


def test_a_key_of_words_is_redacted_as_a_whole_where_it_stands_alone() -> None:
    redactor = knowing("my-gateway-secret")

    assert f"({REDACTED})" == redactor.text("(my-gateway-secret)")
    assert "my-gateway and my-gateway-secrets" == redactor.text("my-gateway and my-gateway-secrets")


def test_names_of_the_protocol_are_not_changed() -> None:
    line = b'{"type":"message_update","assistantMessageEvent":{"delta":"message_updates"}}\n'

    assert line.replace(b"message_updates", REDACTED.encode()) == knowing("message_updates4711").line(line)


def test_a_part_that_only_escapes_spell_is_redacted_too() -> None:
    r"""The bytes of a line feed are `\n`: before the rest of a part they spell the whole part."""
    line = encoded({"text": "a\nbcdefg4 \\nbcdefg4"})

    shown = knowing("nbcdefg4711XyZ").line(line)

    assert b"nbcdefg4" not in shown
    assert json.loads(shown)["text"].startswith("a")


def test_the_password_of_an_address_and_the_key_in_its_query_are_known() -> None:
    redactor = Redactor()
    redactor.learn_address("https://me:p%40ssw0rd99@host/v1?key=AbCdEf0123456789&version=2024-10-01")

    shown = redactor.text("GET https://host/v1?key=AbCdEf0123456789&version=2024-10-01 p%40ssw0rd99 p@ssw0rd99")

    assert f"GET https://host/v1?key={REDACTED}&version=2024-10-01 {REDACTED} {REDACTED}" == shown


def test_a_search_finds_the_same_with_the_engine_for_much_text() -> None:
    texts = [form.text.encode() for form in forms_of('a"b\\c/d e+f=g&h<1>.*[x]|^$ü')]
    slow, fast = Search(texts), Search(texts)
    for _ in range(10):
        assert not fast(b"\xff x" * 1_000_000)

    for text in texts:
        for around in (b"", b"x" * 100, "é".encode(), b"\xff"):
            assert slow(around + text + around)
            assert fast(around + text + around)
            assert slow(around + text[1:]) == fast(around + text[1:])
