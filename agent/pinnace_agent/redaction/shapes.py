"""What a value must look like to be a key: its length, its mixture of characters, the known shapes of vendors.

A path, an address, a number and a word are never keys, whatever names them: ordinary text holds them, and replacing
them there destroys it. Of the others, a value that is long and mixed (`is_strong`) can't be in a text by accident; a
shorter one, and one that consists of words, is a key only because its name says so. Pure; has no access to texts.
"""

import re
from itertools import pairwise
from typing import Final

from pinnace_agent.redaction.policy import LEAST_CHARS

# Vendors mark their keys with a public beginning.
MARKS: Final = (
    *("AIzaSy", "csk-", "dop_v1_", "figd_", "fw_", "github_pat_", "gho_", "ghp_", "ghs_", "ghu_", "glpat-", "gsk_"),
    *("hf_", "lin_api_", "npm_", "ntn_", "nvapi-", "pplx-", "pypi-", "r8_", "rk_live_", "secret_", "SG.", "shpat_"),
    *("sk-", "sk-admin-", "sk-ant-", "sk-ant-admin01-", "sk-ant-api03-", "sk-ant-oat01-", "sk-ant-ort01-", "sk-live-"),
    *("sk-None-", "sk-or-", "sk-or-v1-", "sk-proj-", "sk-svcacct-", "sk-test-", "sk_live_", "sk_test_", "tgp_v1_"),
    *("vck_", "whsec_", "xai-", "xapp-", "xoxa-", "xoxb-", "xoxp-", "ya29."),
)
# Parts of keys that are ordinary words, or names of the protocol and of providers, say nothing about the key.
WORDS: Final = (
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
# From this length on a value that is no sequence of words is in no text by accident.
_STRONG_CHARS: Final = 16
# Under a name that says nothing: longer, and mixed throughout.
_RANDOM_CHARS: Final = 20
_BEYOND_MARK: Final = 12
_LEAST_KINDS: Final = 4

_NUMBER: Final = re.compile(r"[\d\s.,:+/_()-]*")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|(?:data|file|mailto|urn|unix):")
_MAIL: Final = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_HOST_AND_PORT: Final = re.compile(r"(?:[\w-]+(?:\.[\w-]+)*|\[[0-9a-fA-F:.]+\]):\d{1,5}(?:/\S*)?")
_ADDRESS_OF_IP: Final = re.compile(r"[0-9a-fA-F]{0,4}(?::[0-9a-fA-F]{0,4}){2,7}(?:%\w+)?(?:/\d{1,3})?")
_ROOTED: Final = re.compile(r"~?[/\\]|~\w+/|\.\.?[/\\]|[A-Za-z]:[\\/]|\$\{?\w+\}?[/\\]")
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}")
_FILE_NAME: Final = re.compile(r"[^/\\]*[^./\\]\.[A-Za-z][A-Za-z0-9]{0,4}")
_BETWEEN_PIECES: Final = re.compile(r"[-_./\\ :@]+")
# A word, or several as in `classFactory`, with a number behind; what is so short is of no weight.
_PIECE: Final = re.compile(
    r"(?:[A-Z]?[^\W\d_A-Z]{2,15}|[A-Z]{2,15})(?:[A-Z][^\W\d_A-Z]{2,15}){0,7}\d{0,4}|\w{0,6}|\d{1,10}"
)
_WORD: Final = re.compile(r"[A-Z]?[^\W\d_A-Z]{1,15}|[A-Z]{1,15}")
_HEXADECIMAL: Final = re.compile(r"(?:0x)?[0-9a-fA-F]+|[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_ONE_TOKEN: Final = re.compile(r"[A-Za-z0-9_+/=.~-]+")
_SHAPES: Final = re.compile(
    r"eyJ[\w-]+\.[\w-]+\.[\w-]{8,}"  # a JWT
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY-----.*",
    re.DOTALL,
)
_MARKED: Final = re.compile(f"(?:{'|'.join(map(re.escape, sorted(MARKS, key=len, reverse=True)))})[\\w.-]+")


def is_key(value: str) -> bool:
    """Return whether a value whose name says that it is a key can be one."""
    if len(value) < LEAST_CHARS or len(set(value)) < _LEAST_KINDS:
        return False
    lower = value.lower()
    if lower in _PLACEHOLDERS or lower in WORDS.split() or _WORD.fullmatch(value) or _NUMBER.fullmatch(value):
        return False
    return not (is_address(value) or is_path(value))


def is_strong(value: str) -> bool:
    """Return whether a key is so long and mixed that no text holds it, or eight characters of it, by accident."""
    return len(value) >= _STRONG_CHARS and not is_of_words(value)


def looks_like_key(value: str) -> bool:
    """Return whether a value is a key whatever its name is: of a known shape, or long, one word and random."""
    if _SHAPES.fullmatch(value):
        return True
    if not is_key(value):
        return False
    if _MARKED.fullmatch(value):
        mark = max((mark for mark in MARKS if value.startswith(mark)), key=len)
        return len(value) >= len(mark) + _BEYOND_MARK and not is_of_words(value[len(mark) :])
    if len(value) < _RANDOM_CHARS or not _ONE_TOKEN.fullmatch(value) or _HEXADECIMAL.fullmatch(value):
        return False
    return not is_of_words(value) and any(map(_is_random, _BETWEEN_PIECES.split(value)))


def is_of_words(value: str) -> bool:
    """Return whether a value consists of words and short pieces, as names, identifiers and passphrases do."""
    return all(map(_PIECE.fullmatch, _BETWEEN_PIECES.split(value)))


def is_words(value: str) -> bool:
    """Return whether a value, or a part of one, is nothing but letters that can be words."""
    return value.replace("-", "").replace("_", "").isalpha() and is_of_words(value)


def is_address(value: str) -> bool:
    """Return whether a value is an address of anything: what is secret in it are its credentials (`credentials`)."""
    if _SCHEME.match(value):
        return True
    return any(form.fullmatch(value) for form in (_MAIL, _HOST_AND_PORT, _ADDRESS_OF_IP))


def is_path(value: str) -> bool:
    """Return whether a value is a path, several, or the name of a file or host. Base64 may begin with a slash, too."""
    if _ROOTED.match(value):
        return not (_BASE64.fullmatch(value) and any(map(_is_random, value.split("/"))))
    if "/" in value or "\\" in value:
        name = re.split(r"[/\\]", value)[-1]
        return "=" not in value and (_FILE_NAME.fullmatch(name) is not None or is_of_words(value))
    return _FILE_NAME.fullmatch(value) is not None and is_of_words(value)


def _is_random(piece: str) -> bool:
    """Return whether characters of several kinds follow each other in turns, all through a piece."""
    if len(piece) < _STRONG_CHARS or _PIECE.fullmatch(piece) or _HEXADECIMAL.fullmatch(piece):
        return False
    kinds = [0 if each.isdigit() else 1 if each.isupper() else 2 for each in piece]
    changes = sum(a != b for a, b in pairwise(kinds))
    return len(set(kinds)) > 1 and changes * 5 >= len(piece)
