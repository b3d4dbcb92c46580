"""What users read when a provider fails, and that no key is ever in it."""

import errno
import json
import socket
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.llm.failures import MAX_BODY_CHARS, FailureTexts, RefusedResponse
from pinnace_agent.redaction.policy import REDACTED
from pinnace_agent.redaction.secrets import Secrets

KEY = "sk-abcdef0123456789"
TEXTS = FailureTexts(Secrets(KEY))


@pytest.mark.parametrize("status", [400, 401, 413, 429, 500, 529])
@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b'{"error": {"message": "no", "code": 7}}', ': {"message":"no","code":7}'),
        (b'[{"error": {"message": "no"}}]', ': {"message":"no"}'),
        (b'{"error": "no"}', ": no"),
        (b'{"detail": "no"}', ': {"detail":"no"}'),
        (b'{"error": null, "message": "no"}', ': {"error":null,"message":"no"}'),
        (b'{"error": "", "message": "no"}', ': {"error":"","message":"no"}'),
        (b'"no"', ': "no"'),
        (b"<html>no</html>\n", " <html>no</html>"),
        (b"caf\xe9", " caf\ufffd"),
        (b"", " status code (no body)"),
        (b" \r\n", " status code (no body)"),
    ],
)
def test_a_refusal_begins_with_its_status_and_shows_the_body(status: int, body: bytes, text: str) -> None:
    assert TEXTS.refused(RefusedResponse(status, body)) == f"{status}{text}"


def test_what_the_provider_behind_a_gateway_said_is_added() -> None:
    error = {"message": "Provider returned error", "metadata": {"raw": "upstream: 503", "provider_name": "x"}}
    body = json.dumps({"error": {"message": "m", "metadata": {"raw": {"a": 1}}}}).encode()

    assert TEXTS.broke_off(error) == "Provider returned error\nupstream: 503"
    assert TEXTS.refused(RefusedResponse(502, body)) == '502: {"message":"m","metadata":{"raw":{"a":1}}}'


def test_a_redirect_says_where_to() -> None:
    text = TEXTS.refused(RefusedResponse(301, b"<html>moved</html>", "https://example.test/v1"))

    assert text.startswith("301 The server redirects to https://example.test/v1: ")


def test_a_long_body_is_cut() -> None:
    text = TEXTS.refused(RefusedResponse(500, b"x" * 5000))

    assert text == f"500 {'x' * MAX_BODY_CHARS}... [truncated 1000 chars]"


def test_a_success_without_events_says_what_came_instead() -> None:
    assert TEXTS.no_event_stream("text/html", b"<html>hi</html>") == (
        "Stream ended without finish_reason: the server sent text/html and no events: <html>hi</html>"
    )
    assert TEXTS.no_event_stream("", b"") == (
        "Stream ended without finish_reason: the server sent no content type and no events"
    )
    assert TEXTS.no_event_stream("application/json", b'{"error": {"message": "no such model"}}') == "no such model"


def test_an_event_named_error_is_worded_whatever_it_holds() -> None:
    assert TEXTS.error_event(b'{"error": {"message": "no"}}') == "no"
    assert TEXTS.error_event(b'{"message": "no"}') == "no"
    assert TEXTS.error_event(b'{"code": 3}') == '{"code":3}'
    assert TEXTS.error_event(b"no") == "no"


def nested(error: Exception) -> Exception:
    """Wrap an error as HTTP clients do."""
    try:
        try:
            raise error
        except Exception as inner:
            raise ValueError("in between") from inner
    except ValueError as middle:
        outer = RuntimeError("all attempts failed")
        outer.__cause__ = ExceptionGroup("attempts", [middle])
        return outer


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "Connection refused (ECONNREFUSED)"),
        (socket.gaierror(socket.EAI_NONAME, "Name or service not known"), "Name or service not known (EAI_NONAME)"),
        (ssl.SSLCertVerificationError(1, "certificate has expired"), "certificate has expired"),
        (ValueError("odd"), "odd"),
        (EOFError(), "EOFError"),
    ],
)
def test_of_a_failed_connection_the_deepest_cause_is_named(error: Exception, text: str) -> None:
    assert TEXTS.transport_failed("Connection error", error) == f"Connection error: {text}"
    assert TEXTS.transport_failed("Connection error", nested(error)) == f"Connection error: {text}"


def test_causes_that_go_round_in_a_circle_have_an_end() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__cause__, second.__cause__ = second, first

    assert TEXTS.transport_failed("Connection lost", first).startswith("Connection lost: ")


# Secrets


@pytest.mark.parametrize(
    ("secrets", "secret"),
    [
        (Secrets(KEY), KEY),
        (Secrets(f"  {KEY}\n"), KEY),
        (Secrets(None, {"Authorization": f"Bearer {KEY}"}), KEY),
        (Secrets(None, {"authorization": "Basic dXNlcjpwYXNz"}), "dXNlcjpwYXNz"),
        (Secrets(None, {"X-API-Key": "hunter2!"}), "hunter2!"),
        (Secrets(None, {"cf-aig-authorization": "Bearer four words of it"}), "four words of it"),
        (Secrets(None, {"Cookie": "session=abc"}), "session=abc"),
        (Secrets(None, {"X-Custom": "a4Tq7bLm9XcZ2vRk8pWd"}), "a4Tq7bLm9XcZ2vRk8pWd"),
        (Secrets("", {}, "http://user:p%40ssw0rd@host/v1"), "p@ssw0rd"),
        (Secrets("sh0rt"), "sh0rt"),
    ],
)
def test_what_lets_a_request_in_is_hidden(secrets: Secrets, secret: str) -> None:
    text = FailureTexts(secrets).refused(RefusedResponse(401, f"Incorrect key {secret}.".encode()))

    assert text == f"401 Incorrect key {REDACTED}."


def test_what_is_no_secret_is_shown() -> None:
    secrets = Secrets(
        None, {"HTTP-Referer": "https://example.test/app", "X-Title": "My editor", "X-Mode": "fast"}, "::"
    )

    assert secrets.hide("https://example.test/app My editor fast") == "https://example.test/app My editor fast"
    assert Secrets().hide("text") == "text"


def test_a_short_key_is_hidden_only_where_it_stands_alone() -> None:
    assert Secrets("n0ne").hide("n0netheless: n0ne-such is not n0ne") == f"n0netheless: n0ne-such is not {REDACTED}"


@pytest.mark.parametrize("key", ["none", "4711", "factory"])
def test_a_word_or_a_number_that_is_sent_as_a_key_stays_in_an_error(key: str) -> None:
    """Servers without authentication are given such keys, and texts are full of them."""
    assert Secrets(key).hide(f"{key} of these: {key}") == f"{key} of these: {key}"


def test_a_key_is_hidden_where_it_is_written_as_json() -> None:
    key = 'key-with-"quotes"\\and-more'
    body = json.dumps({"error": {"message": f"bad key {key}"}}).encode()

    for text in (
        FailureTexts(Secrets(key)).refused(RefusedResponse(401, body)),
        FailureTexts(Secrets(key)).refused(RefusedResponse(401, body[1:])),
    ):
        assert REDACTED in text
        assert "quotes" not in text


@given(st.integers(0, 60))
def test_no_part_of_a_key_is_left_where_a_text_is_cut(before: int) -> None:
    padding = "x" * (MAX_BODY_CHARS - 30 + before)
    text = TEXTS.refused(RefusedResponse(401, f"{padding}{KEY}{'y' * 100}".encode()))

    assert "sk-" not in text
    assert "sk-" not in TEXTS.unreadable_chunk("odd", ("x" * (170 + before) + KEY + "y" * 100).encode())
    assert "sk-" not in TEXTS.no_event_stream("", ("x" * (170 + before) + KEY + "y" * 100).encode())


@pytest.mark.parametrize("place", ["message", "code", "metadata"])
def test_a_key_is_hidden_in_every_part_of_an_error(place: str) -> None:
    value = {"raw": f"<{KEY}>"} if place == "metadata" else f"<{KEY}>"
    error = {"message": "m", place: value}

    for text in (
        TEXTS.broke_off(error),
        TEXTS.broke_off({place: value}),
        TEXTS.refused(RefusedResponse(401, json.dumps({"error": error}).encode())),
        TEXTS.refused(RefusedResponse(401, json.dumps(error).encode())),
        TEXTS.refused(RefusedResponse(302, b"", f"https://example.test/?key={KEY}")),
        TEXTS.error_event(json.dumps(error).encode()),
        TEXTS.transport_failed("Connection error", ValueError(KEY)),
    ):
        assert "sk-" not in text


def test_secrets_are_not_in_their_own_representation() -> None:
    assert "sk-" not in repr(Secrets(KEY))
