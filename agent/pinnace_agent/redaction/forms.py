"""The forms in which a key can appear in a text: as it is, escaped for JSON, URL-encoded, in hexadecimal, in base64.

Each form says how many of its first and last characters give the key away: those of eight characters of the key.
Pure; has no access to texts.
"""

import json
from binascii import b2a_base64
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from pinnace_agent.redaction.policy import LEAST_CHARS

# Vendors mark their keys with a public beginning. A part of a key counts once it holds so many characters beyond that.
_BEYOND_MARK: Final = 4
_MARKS: Final = (
    *(
        "AIzaSy",
        "csk-",
        "fw_",
        "github_pat_",
        "gho_",
        "ghp_",
        "ghu_",
        "gsk_",
        "hf_",
        "nvapi-",
        "pplx-",
        "r8_",
        "tgp_v1_",
    ),
    *("sk-", "sk-admin-", "sk-ant-", "sk-ant-admin01-", "sk-ant-api03-", "sk-ant-oat01-", "sk-ant-ort01-", "sk-live-"),
    *("sk-None-", "sk-or-", "sk-or-v1-", "sk-proj-", "sk-svcacct-", "sk-test-", "vck_", "xai-", "ya29."),
)
# Parts of keys that are ordinary words, or names of the protocol and of providers, say nothing about the key.
_WORDS: Final = (
    "[redacted] Authorization Bearer administrator anthropic-messages assistant changeme "
    "claude-haiku-4 claude-opus-4 claude-sonnet-4 contentIndex credential deepseek-chat deepseek-reasoner development "
    "environment experimental extension external fireworks gateway-key gemini-pro gemini-flash generative-language "
    "google-generative-ai huggingface internal localhost message_end message_start message_update messages mistralai "
    "moonshotai openai-completions openai-responses openrouter password passwort personal placeholder production "
    "project-key provider proxy-key required response secret-key secretkey security sessionId something staging "
    "steering submission temporary test-key testing thinking together token-key toolCallId toolResult username "
    "vercel-ai-gateway whatever workspace"
).lower()
# What servers without authentication are given, and what documentation shows: no secrets.
_PLACEHOLDERS: Final = frozenset(
    "anything changeme dummy-key dummykey fake-key fakekey lm-studio lmstudio local-key no-api-key no-key-needed "
    "no-key-required no_key_needed none-needed not-needed not-required not-used not_needed notneeded ollama-key "
    "placeholder required sk-dummy-key sk-no-key-required something unneeded unused-key whatever your-api-key "
    "your_api_key".split()
)
# A few words are a password that a person chose, or a placeholder: looked for as a whole only.
_MOST_OF_WORDS: Final = 24
_MOST_OF_WORD: Final = 15


class Form(NamedTuple):
    """One way to write one key."""

    text: str
    front: int
    """So many first characters are a part that must not appear; all of them: the whole form alone must not."""
    back: int
    """So many last characters, likewise."""
    is_word: bool = False
    """Whether it counts only where no letter, digit, dash or underscore is beside it."""


def forms_of(key: str, *, whole: bool = False) -> tuple[Form, ...]:
    """Return the forms of a key; none of one that is too short, or a known placeholder.

    Args:
        key: Any text.
        whole: Look for no parts of it.
    """
    if len(key) < LEAST_CHARS or key.lower() in _PLACEHOLDERS or key.lower() in _WORDS.split():
        return ()
    is_word = _is_of_words(key)
    front, back = (len(key), len(key)) if whole or is_word else (_front(key), _back(key))
    found: dict[str, Form] = {}
    for form in (Form(key, front, back, is_word), *_spelt(key, front, back), *_in_base64(key, front, back)):
        found.setdefault(form.text, form)
    return tuple(found.values())


def _is_of_words(key: str) -> bool:
    if len(key) >= _MOST_OF_WORDS:
        return False
    return all(map(_is_word, key.replace("_", "-").replace(".", "-").replace(" ", "-").split("-")))


def _is_word(text: str) -> bool:
    is_in_one_case = text.islower() or text.isupper() or (text[:1].isupper() and text[1:].islower())
    return text.isalpha() and is_in_one_case and len(text) <= _MOST_OF_WORD


def _front(key: str) -> int:
    """Return how many first characters are a part that reveals something about the key."""
    size = LEAST_CHARS
    for mark in _MARKS:
        if key.startswith(mark):
            size = max(size, len(mark) + _BEYOND_MARK)
    if key.startswith("eyJ") and key.count(".") == 2:  # a JWT: its head and its claims are no secret
        size = max(size, key.rfind(".") + 1 + _BEYOND_MARK)
    while size < len(key) and key[:size].lower() in _WORDS:
        size += 1
    return min(size, len(key))


def _back(key: str) -> int:
    size = LEAST_CHARS
    while size < len(key) and key[-size:].lower() in _WORDS:
        size += 1
    return size


def _spelt(key: str, front: int, back: int) -> Iterator[Form]:
    """Yield the forms that spell one character after the other."""
    is_plain = key.isascii() and key.replace("-", "").replace("_", "").replace(".", "").replace("~", "").isalnum()
    for spell in _SPELLINGS if is_plain else _all_spellings():
        text = spell(key)
        if text != key:
            yield Form(text, len(spell(key[:front])), len(spell(key[len(key) - back :])))


def _encoded(key: str) -> bytes:
    return key.encode("utf-8", "surrogatepass")


def json_spellings(text: str) -> tuple[str, str]:
    """Return how a text stands in JSON: with characters beyond ASCII as they are, and escaped."""
    return json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(text)[1:-1]


def _percent(key: str) -> str:
    return "".join([f"%{byte:02X}" for byte in _encoded(key)])


# Of any key; the others leave letters, digits and a few signs as they are.
_SPELLINGS: Final[tuple[Callable[[str], str], ...]] = (
    lambda key: _encoded(key).hex(),
    lambda key: _encoded(key).hex().upper(),
    _percent,
    lambda key: _percent(key).lower(),
)


def _all_spellings() -> tuple[Callable[[str], str], ...]:
    from urllib.parse import quote, quote_plus

    def quoted(safe: str) -> Callable[[str], str]:
        return lambda key: quote(_encoded(key), safe=safe)

    def quoted_in_lower_case(key: str) -> str:
        return "".join([each if each in key else each.lower() for each in map(quoted(""), key)])

    return (
        *_SPELLINGS,
        lambda key: json_spellings(key)[0],
        lambda key: json_spellings(key)[1],
        lambda key: json_spellings(json_spellings(key)[1])[1],
        quoted(""),
        quoted_in_lower_case,
        quoted("/"),
        quoted("!~*'()"),  # encodeURIComponent
        quoted(";,/?:@&=+$!~*'()#"),  # encodeURI
        lambda key: quote_plus(_encoded(key)),
    )


def _in_base64(key: str, front: int, back: int) -> Iterator[Form]:
    """Yield what base64 makes of a key wherever it stands in what is encoded, in both alphabets.

    Characters that depend on what is beside the key are left out.
    """
    raw = _encoded(key)
    first, last = len(_encoded(key[:front])), len(_encoded(key[len(key) - back :]))
    for lead in range(3):
        start, end = _whole_sextets(lead, lead + len(raw))
        front_size = _whole_sextets(lead, lead + first)[1] - start
        back_size = end - _whole_sextets(lead + len(raw) - last, lead + len(raw))[0]
        text = b2a_base64(b"\0" * lead + raw + b"\0" * 3).decode()[start:end]
        yield Form(text, front_size, back_size)
        if "+" in text or "/" in text:
            yield Form(text.replace("+", "-").replace("/", "_"), front_size, back_size)


def _whole_sextets(start: int, end: int) -> tuple[int, int]:
    """Return the characters of base64 that the bytes from `start` to `end` alone decide."""
    return -(-start * 8 // 6), end * 8 // 6


def anchors_of(forms: Iterable[Form]) -> list[str]:
    """Return texts of which one is in every text that holds a form, or a part of one that must not appear."""
    found: dict[str, None] = {}
    for form in forms:
        found[form.text[: form.front]] = None
        found[form.text[len(form.text) - form.back :]] = None
    return list(found)
