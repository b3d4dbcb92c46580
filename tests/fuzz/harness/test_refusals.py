"""A refused request gets the body that the vendor's servers send with this status."""

import json
import urllib.error
import urllib.request
from typing import Any

import pytest

from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.harness.model_server.short_form import read_response
from pinnace_fuzz.judge.scenarios.llm_lines import read_llm
from pinnace_fuzz.script import ScriptError

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
GEMINI = "/v1beta/models/m1:streamGenerateContent?alt=sse"


def refused(path: str, line: object) -> tuple[int, Any]:
    with FakeLlm([read_llm(line, ()).answer]) as llm:
        request = urllib.request.Request(llm.base_url + path, data=b'{"model": "m1", "messages": []}')
        with pytest.raises(urllib.error.HTTPError) as raised, urllib.request.urlopen(request):
            pass
        return raised.value.code, json.loads(raised.value.read())


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
@pytest.mark.parametrize(
    ("status", "kind", "code"),
    [
        (400, "invalid_request_error", None),
        (401, "invalid_request_error", "invalid_api_key"),
        (403, "invalid_request_error", None),
        (404, "invalid_request_error", "model_not_found"),
        (429, "requests", "rate_limit_exceeded"),
        (500, "server_error", None),
        (503, "server_error", None),
    ],
)
def test_one_vendor_has_a_type_and_a_code(path: str, status: int, kind: str, code: str | None) -> None:
    error = {"message": "No.", "type": kind, "param": None, "code": code}

    assert (status, {"error": error}) == refused(path, {"error": {"status": status, "message": "No."}})


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (413, "request_too_large"),
        (422, "invalid_request_error"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
    ],
)
def test_the_other_vendor_says_it_with_the_type_alone(status: int, kind: str) -> None:
    body = {"type": "error", "error": {"type": kind, "message": "No."}}

    assert (status, body) == refused(MESSAGES, {"error": {"status": status, "message": "No."}})


@pytest.mark.parametrize(
    ("status", "word"),
    [(400, "INVALID_ARGUMENT"), (401, "UNAUTHENTICATED"), (429, "RESOURCE_EXHAUSTED"), (422, "INVALID_ARGUMENT"),
     (500, "INTERNAL"), (503, "UNAVAILABLE"), (599, "INTERNAL")],
)  # fmt: skip
def test_a_third_one_has_a_word_for_the_status(status: int, word: str) -> None:
    body = {"error": {"code": status, "message": "No.", "status": word}}

    assert (status, body) == refused(GEMINI, {"error": {"status": status, "message": "No."}})


def test_an_overflow_has_the_code_that_says_so() -> None:
    status, body = refused(CHAT, {"overflow": True})

    assert (400, "invalid_request_error", "context_length_exceeded") == (
        status,
        body["error"]["type"],
        body["error"]["code"],
    )


def test_a_body_is_sent_as_it_is_or_made_and_not_both() -> None:
    with pytest.raises(ScriptError):
        read_response({"error": {"status": 400, "body": {}, "message": "No."}}, 0)
