"""What the user reads of a failed request, and how programs still recognise it."""

from typing import get_args

import pytest

from pinnace_agent.engine.run_job import NO_MODEL
from pinnace_agent.llm.builder import FailureSigns
from pinnace_agent.llm.failure_report import Attempts, report_failure, served_window
from pinnace_agent.llm.failures import provider_words
from pinnace_agent.llm.outcomes import OutcomeKind, classify_failure
from pinnace_spec.records.messages import FailureCode, Model

# Its name and address hold every word that makes a failure final, an overflow or worth another try.
MODEL: Model = {**NO_MODEL, "provider": "acme", "id": "billing-rate-limit-429"}
ADDRESS = "http://quota-exceeded.example/too-many-tokens/timeout/v1"


def report(text: str, signs: FailureSigns | None = None, attempts: Attempts | None = None) -> tuple[str, str]:
    signs = signs or FailureSigns(address=ADDRESS)
    kind = classify_failure(text, "acme", signs).kind
    made = report_failure(text, MODEL, signs, kind, attempts or Attempts())
    return made.text, made.code


@pytest.mark.parametrize(
    ("text", "signs", "code"),
    [
        ("404 404 page not found", FailureSigns(404), "not_found"),
        ("401: {}", FailureSigns(401), "authentication"),
        ("403: {}", FailureSigns(403), "authentication"),
        ("402: {}", FailureSigns(402), "quota"),
        ('429: {"message":"insufficient_quota"}', FailureSigns(429), "quota"),
        ('429: {"message":"slow down"}', FailureSigns(429), "rate_limited"),
        ("500: {}", FailureSigns(500), "server_error"),
        ("529 Overloaded", FailureSigns(529), "server_error"),
        ("504 status code (no body)", FailureSigns(504), "timeout"),
        ("400: {}", FailureSigns(400), "rejected"),
        ('400: {"message":"prompt is too long"}', FailureSigns(400), "context_overflow"),
        ("Connection error: Connection refused (ECONNREFUSED)", FailureSigns(kind="unreachable"), "unreachable"),
        ("502 Bad Gateway", FailureSigns(), "server_error"),
        ("Provider finish_reason: error", FailureSigns(), "provider_error"),
    ],
)
def test_a_failure_has_a_code_for_programs(text: str, signs: FailureSigns, code: str) -> None:
    assert code in get_args(FailureCode)
    assert code == report(text, signs)[1]


def test_a_failure_names_model_address_attempt_and_what_to_do() -> None:
    text, _ = report("404 404 page not found", FailureSigns(404, address="http://127.0.0.1:8080/chat/completions"))

    assert text == (
        "404 404 page not found\n"
        "Model acme/billing-rate-limit-429 at http://127.0.0.1:8080/chat/completions, attempt 1, not tried again. "
        "Check the model's id and baseUrl in models.json: most servers want a path such as /v1 at its end."
    )


def test_a_failure_that_is_tried_again_names_the_attempts() -> None:
    assert ", attempt 2 of 4. " in report("503 busy", attempts=Attempts(2, 4))[0]


@pytest.mark.parametrize("host", ["127.0.0.1:1234", "localhost", "[::1]:8080"])
def test_a_local_server_that_is_not_there_is_to_be_started(host: str) -> None:
    signs = FailureSigns(kind="unreachable", address=f"http://{host}/v1")

    assert report("Connection error: Connection refused (ECONNREFUSED)", signs)[0].endswith(
        "No server listens there: start it, or correct baseUrl in models.json."
    )


@pytest.mark.parametrize("host", ["localhost.example.com", "10.0.0.1", "127.0.0.1.example.com"])
def test_a_server_elsewhere_may_be_out_of_reach(host: str) -> None:
    assert "No server listens" not in report("x", FailureSigns(kind="unreachable", address=f"http://{host}/v1"))[0]


@pytest.mark.parametrize(
    "text",
    [
        "404 404 page not found",
        "500: {}",
        "Connection error: Connection refused (ECONNREFUSED)",
        '400: {"message":"prompt is too long"}',
        "401: no",
        "hm",
        "first\nsecond line",
    ],
)
def test_what_is_added_changes_no_outcome(text: str) -> None:
    """The words of the provider decide, not those of the address or of the model's name."""
    shown, _ = report(text)

    assert shown != text
    assert provider_words(shown) == text
    assert classify_failure(shown, "acme").kind is classify_failure(text, "acme").kind


def test_cerebras_overflow_is_still_recognised_by_its_whole_text() -> None:
    text = report_failure(
        "400 status code (no body)", MODEL, FailureSigns(address=ADDRESS), OutcomeKind.OVERFLOW, Attempts()
    ).text

    assert classify_failure(text, "cerebras").kind is OutcomeKind.OVERFLOW


@pytest.mark.parametrize(
    ("text", "window"),
    [
        (
            '400: {"code":400,"message":"the request exceeds the available context size. try increasing it",'
            '"type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}',
            4096,
        ),
        ("the request exceeds the available context size (8192 tokens), try increasing it", 8192),
        ("This model's maximum context length is 128,000 tokens. However, you requested 130000 tokens", 128_000),
        ("prompt is too long: 213462 tokens > 200000 maximum", 200_000),
        ("The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).", 1_048_575),
        ("the model is loaded with context length of only 4096 tokens, which is not enough", 4096),
        ("Reached context length of 4096 tokens with model (arch: qwen2)", 4096),
        ("The decoder prompt (length 5000) is longer than the maximum model length of 4096.", 4096),
        ("input (5000) exceeds model's maximum context length (4096).", 4096),
        ("Input validation error: `inputs` must have less than 1024 tokens. Given: 1240", 1024),
        ("`inputs` tokens + `max_new_tokens` must be <= 2048. Given: 1500 `inputs` tokens and 1000", 2048),
        ("The input (5012 tokens) is longer than the model's context length (4096 tokens).", 4096),
        ("prompt is too long", None),
    ],
)
def test_the_window_that_a_refusal_names_is_read(text: str, window: int | None) -> None:
    assert window == served_window(text)
    assert window == served_window(report(text)[0])
