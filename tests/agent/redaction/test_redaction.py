"""No form of a known key is in what is written; what holds none is written as it is, whatever is configured.

Forms: the key itself, escaped for JSON, URL-encoded, in hexadecimal, in base64 at each of its three alignments, and the
first and last parts of these from eight characters of the key on, where a text is cut.
"""

import base64
import json
import string
from collections.abc import Callable, Iterator
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from pinnace_agent.redaction.credentials import secrets_of
from pinnace_agent.redaction.forms import forms_of
from pinnace_agent.redaction.growing import GrowingMessage, GrowingText
from pinnace_agent.redaction.policy import REDACTED
from pinnace_agent.redaction.redactor import Redactor
from pinnace_agent.redaction.replacing import spans_of
from pinnace_agent.redaction.search import TextSearch

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

BYTES_BEFORE = {"base64, one byte before": 1, "base64, two bytes before": 2, "base64, url-safe": 2}

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
    if not name.startswith("base64"):
        return whole
    # Of each character six bits; those of the bytes before and behind decide some of its neighbours.
    first = 8 * BYTES_BEFORE.get(name, 0)
    return whole[-(-first // 6) : (first + 8 * len(key.encode())) // 6]


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
    assume(not any(spans_of(each, redactor.known().forms) for each in strings_in(json.loads(line))))

    assert line == redactor.line(line)
    assert text == redactor.text(text)


@settings(max_examples=60)
@given(
    keys,
    st.sampled_from(sorted(ENCODINGS)),
    st.integers(8, 15),
    st.sampled_from(["", "...", "…", "\n\n[cut]"]),
    st.booleans(),
)
def test_a_part_of_eight_characters_is_redacted_where_a_text_is_cut_and_only_there(
    key: str, encoding: str, size: int, notice: str, first: bool
) -> None:
    part = key[:size] if first else key[-size:]
    form = ENCODINGS[encoding](part)
    if encoding.startswith("base64"):  # what is beside a part decides some of its characters
        form = ENCODINGS[encoding](key)
        form = form[: 2 * size + 4] if first else form[-2 * size - 4 :]
    cut = f"it is {form}{notice}" if first else f"{notice.removesuffix('[cut]')}{form} was it"

    shown = knowing(key).text(cut)

    assert REDACTED in shown
    assert form not in shown
    assume(fully_decided(encoding, key) not in form)
    assert knowing(key).text(f"é{form}é") == f"é{form}é"  # no key has these


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("it is abcDEFgh... and more", f"it is {REDACTED}... and more"),
        ("it is abcDEFgh...", f"it is {REDACTED}..."),
        ("it is abcDEFgh.… and more", f"it is {REDACTED}… and more"),
        ("it is abcDEFgh.ijkl... and more", f"it is {REDACTED}... and more"),
        ("...XYZ98765 was it", f"...{REDACTED} was it"),
        ("it was ...XYZ98765", f"it was ...{REDACTED}"),
        ("it was ... .XYZ98765", f"it was ... {REDACTED}"),
    ],
)
def test_a_part_beside_a_dot_of_its_key_is_redacted_where_dots_say_that_it_is_cut(text: str, shown: str) -> None:
    """The dot of the notice could be that of the key."""
    assert shown == knowing("abcDEFgh.ijklMNO0123456.XYZ98765").text(text)


@settings(max_examples=40)
@given(
    keys.filter(lambda key: "[" not in key),
    st.sampled_from(sorted(ENCODINGS)),
    st.text(alphabet, max_size=5),
    st.data(),
)
def test_a_key_in_pieces_is_redacted_but_for_seven_characters(
    key: str, encoding: str, before: str, data: st.DataObject
) -> None:
    said = f"{before} {ENCODINGS[encoding](key)} after"
    growing = GrowingText(knowing(key))
    pieces: list[str] = []
    left = said
    while left:
        size = data.draw(st.integers(1, 6), label="size")
        pieces.append(growing.add(left[:size]))
        left = left[size:]

    shown = "".join(pieces)
    form = fully_decided(encoding, key)
    most = max(len(ENCODINGS[encoding](key[:8])), 8) + 4  # what base64 decides alone is a little more
    assert not any(form[place : place + most] in shown for place in range(max(1, len(form) - most + 1)))
    assert encoding != "plain" or not any(key[place : place + 8] in shown for place in range(len(key) - 7))
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

    halves = KEY[:14], KEY[14:]
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
    line = b'{"type":"message_update","assistantMessageEvent":{"delta":"message_update2"}}\n'

    assert line.replace(b"message_update2", REDACTED.encode()) == knowing("message_update", "message_update2").line(
        line
    )


def test_a_part_that_only_escapes_spell_is_redacted_too() -> None:
    r"""The bytes of a line feed are `\n`: before the rest of a part they spell the whole part."""
    key = "nbcdefg4711XyZ0815Uvw"
    line = encoded({"text": f"a\n{key[1:]} \\{key}"})

    shown = knowing(key).line(line)

    assert key.encode() not in shown
    assert json.loads(shown)["text"].startswith("a")


def test_the_password_of_an_address_and_the_key_in_its_query_are_known() -> None:
    redactor = Redactor()
    redactor.learn_address("https://me:p%40ssw0rd99@host/v1?key=AbCdEf0123456789&version=2024-10-01")

    shown = redactor.text("GET https://host/v1?key=AbCdEf0123456789&version=2024-10-01 p%40ssw0rd99 p@ssw0rd99")

    assert f"GET https://host/v1?key={REDACTED}&version=2024-10-01 {REDACTED} {REDACTED}" == shown


def test_a_search_finds_the_same_with_the_engine_for_much_text() -> None:
    texts = [form.text.encode() for form in forms_of('a"b\\c/d e+f=g&h<1>.*[x]|^$ü')]
    slow, fast = TextSearch(texts), TextSearch(texts)
    for _ in range(10):
        assert not fast(b"\xff x" * 1_000_000)

    for text in texts:
        for around in (b"", b"x" * 100, "é".encode(), b"\xff"):
            assert slow(around + text + around)
            assert fast(around + text + around)
            assert slow(around + text[1:]) == fast(around + text[1:])


# What is configured and is no key

words = st.from_regex(r"[a-z]{2,12}", fullmatch=True)
names_of_files = st.one_of(
    st.from_regex(r"[a-z]{2,10}_[a-z]{2,10}\.(?:json|py|toml)", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9]{1,12}", fullmatch=True),
    st.sampled_from(
        ["memory.json", "class_factory.json", "My Documents", "3f2a9b8c7d6e5f4a1b0c", "v1.2.3-45-gabc1234"]
    ),
)


def rooted(root: str, parts: list[str]) -> str:
    return root + "/".join(parts)


def on_windows(parts: list[str]) -> str:
    return "C:\\" + "\\".join(parts)


paths: st.SearchStrategy[str] = st.one_of(
    st.builds(rooted, st.sampled_from(["/", "~/", "./", "../"]), st.lists(names_of_files, min_size=1, max_size=5)),
    st.builds(on_windows, st.lists(names_of_files, min_size=1, max_size=4)),
    st.builds("{}/{}_{}.json".format, words, words, words),
)
addresses = st.one_of(
    st.builds(
        "{}://{}.example.com:{}/{}".format,
        st.sampled_from(["http", "https", "postgres", "ws"]),
        words,
        st.integers(1, 65535),
        words,
    ),
    st.builds("{}@{}.example.com".format, words, words),
    st.builds("{}.internal:{}".format, words, st.integers(1, 65535)),
    st.sampled_from(["localhost:11434", "127.0.0.1:8080", "2001:db8::8a2e:370:7334", "file:///srv/alice/notes"]),
)
numbers = st.one_of(
    st.integers(0, 10**20).map(str), st.dates().map(str), st.datetimes().map(str), st.floats(0, 1e9).map("{:f}".format)
)
no_keys = st.one_of(paths, addresses, numbers, words)
names_in_code = st.one_of(
    st.from_regex(r"[a-z]{2,9}(?:_[a-z]{2,9}){1,4}", fullmatch=True),
    st.from_regex(r"[A-Z][a-z]{2,9}(?:[A-Z][a-z]{2,9}){1,4}", fullmatch=True),
    st.sampled_from(
        "claude-sonnet-4-20250514 accounts/fireworks/models/llama-v3p1-405b-instruct x86_64-unknown-linux-gnu "
        "2024-10-01-preview 123e4567-e89b-12d3-a456-426614174000 8c7597a1f3d2e4b5a6978897a6b5c4d3e2f10123 "
        "application/vnd.api+json text/html;charset=utf-8 en-US,en;q=0.9 ctrl+shift+space7".split()
    ),
)
secret_names = st.sampled_from(
    "API_KEY GITHUB_TOKEN Authorization X-Auth-Token dbPassword COOKIE TOKEN_2 MAX_TOKENS".split()
)
other_names = st.sampled_from(
    "MEMORY_FILE_PATH X-Project AUTHOR MONKEY KEYBOARD TOKENIZER SSH_KEY_PATH TOKEN_URL AUTH_MODE KEY_NAME".split()
)
configurations = st.lists(
    st.tuples(st.one_of(secret_names, other_names), no_keys) | st.tuples(other_names, names_in_code),
    min_size=1,
    max_size=4,
)


def in_pieces(redactor: Redactor, text: str, sizes: list[int]) -> str:
    growing, shown = GrowingText(redactor), ""
    for size in [*sizes, len(text)]:
        shown += growing.add(text[:size])
        text = text[size:]
    return shown


@settings(max_examples=150)
@given(configurations, st.data())
@example([("MEMORY_FILE_PATH", "/srv/alice/notes/memory.json")], None)
def test_what_is_configured_and_is_no_key_changes_nothing(
    configuration: list[tuple[str, str]], data: st.DataObject | None
) -> None:
    """Paths, addresses, numbers and words under any name, and names of code under one that says nothing."""
    redactor = Redactor()
    for name, value in configuration:
        redactor.learn_values({name: value})
        if name == "API_KEY":
            redactor.learn(value)  # by its role
    said = [f"{value}\n{value[:-2]} {value[2:]}x{value}" for _, value in configuration]
    said.append("edit /srv/alice/src/class_factory.json, then see http://localhost:8080/x")
    text = "".join(said)

    assert redactor.text(text) == text
    assert redactor.line(line := encoded({"arguments": {"path": text}, "cwd": configuration[0][1]})) == line
    sizes = [] if data is None else data.draw(st.lists(st.integers(1, 9), max_size=40))
    assert in_pieces(redactor, text, sizes) == text


@settings(max_examples=100)
@given(keys | names_in_code, st.lists(st.integers(1, 9), max_size=40), st.data())
def test_what_is_beside_a_key_and_what_only_resembles_it_stays(key: str, sizes: list[int], data: st.DataObject) -> None:
    """Also a text that begins like the key and goes on differently, however it is split."""
    redactor = knowing(key)
    other = data.draw(st.integers(1, len(key) - 1))
    near = f"a {key[:other]}~{key[other:][1:]} b {key[1:-1]}~{key[:-1]}~ class_factory.json ~"
    assume(key not in near)

    assert redactor.text(near) == near
    assert in_pieces(redactor, near, sizes) == near


@settings(max_examples=80)
@given(
    st.one_of(
        keys,
        names_in_code.filter(lambda each: "/" not in each and ";" not in each and "=" not in each),
        st.sampled_from(["hunter2!", "p@ssw0rd99"]),
    ),
    st.sampled_from(["{}", "key={} ", '"{}"', "\x1b[31m{}\x1b[0m", "a\n{}\n", "token: {}.", "({}), ok", "x%3D{}&y"]),
)
def test_a_value_that_is_named_as_a_key_is_redacted_as_a_whole_where_it_stands_alone(key: str, around: str) -> None:
    redactor = Redactor()
    redactor.learn_values({"API_KEY": key})
    assume(redactor.known().forms)
    said = around.format(key)

    assert redactor.text(said) == around.format(REDACTED)
    assert key not in redactor.line(encoded({"text": said, "again": json.dumps({"x": said})})).decode()


@pytest.mark.parametrize(
    ("name", "value", "secrets"),
    [
        ("DATABASE_URL", "postgres://me:hunter2-x9@db.example.com/app", ["hunter2-x9"]),
        ("REPOSITORY", "https://ghp_A1b2C3d4E5f6G7h8@github.com/a/b", ["ghp_A1b2C3d4E5f6G7h8"]),
        ("ENDPOINT", "https://host/v1?api_key=AbCdEf0123&version=2024-10-01", ["AbCdEf0123"]),
        (
            "OPENAPI_MCP_HEADERS",
            '{"Authorization": "Bearer ntn-4711-aB3", "X-Version": "2024-10-01"}',
            ["ntn-4711-aB3"],
        ),
        ("Authorization", "Bearer AbCdEf0123", ["AbCdEf0123"]),
        (
            "X-Custom",
            "Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlLW9m",
            ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJlLW9m"],
        ),
        ("X-Custom", "a4Tq7bLm9XcZ2vRk8pWd", ["a4Tq7bLm9XcZ2vRk8pWd"]),
        ("AWS", "AKIAIOSFODNN7EXAMPLE", ["AKIAIOSFODNN7EXAMPLE"]),
        ("API_KEY_STAGING", "a4Tq7bLm9XcZ2vRk", ["a4Tq7bLm9XcZ2vRk"]),
        (
            "Cookie",
            "session=a4Tq7bLm9XcZ2vRk8pWd; theme=dark-blue",
            ["session=a4Tq7bLm9XcZ2vRk8pWd; theme=dark-blue", "a4Tq7bLm9XcZ2vRk8pWd"],
        ),
        ("SECRET", "/3b+Xq9vT4x9LmN2bW7rYcK5pD1aZ8eF6hJ0kQsU", ["/3b+Xq9vT4x9LmN2bW7rYcK5pD1aZ8eF6hJ0kQsU"]),  # base64
        ("SSH_KEY", "/srv/alice/.ssh/id_ed25519", []),
        ("KEY_FILE", "a4Tq7bLm.json", []),
        ("TOKEN_FORMAT", "bearer-header", []),
        ("AUTHOR", "alice-and-bob-2024", []),
        ("User-Agent", "a4Tq7bLm9XcZ2vRk8pWd", []),
        ("X-Trace", "123e4567-e89b-12d3-a456-426614174000", []),
        ("PASSWORD", "xxxxxxxxxxxx", []),
        ("CONFIG", '{"path": "/srv/alice/x.json", "port": 8080}', []),
        ("HEADERS", "{broken", []),
        ("ENDPOINT", "http://[::1", []),
    ],
)
def test_name_and_form_decide_what_of_a_value_is_a_key(name: str, value: str, secrets: list[str]) -> None:
    assert list(dict.fromkeys(secrets_of(name, value))) == secrets
