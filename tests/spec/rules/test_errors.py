"""The texts that clients match, letter by letter, and the codes beside them."""

import re

import pytest

from pinnace_spec.rules import errors
from pinnace_spec.rules.errors import ClientError, ErrorCode, ProtocolError


@pytest.mark.parametrize(
    ("text", "published"),
    [
        (
            errors.BUSY,
            "Agent is already processing. Specify streamingBehavior ('steer' or 'followUp') to queue the message.",
        ),
        (
            errors.COMPACTING,
            "Cannot submit a prompt while compaction is in progress. Wait for compaction to finish and retry.",
        ),
        (
            errors.not_queueable("x"),
            'Extension command "/x" cannot be queued. Use prompt() or execute the command when not streaming.',
        ),
        (
            errors.authentication_failed("anthropic"),
            'Authentication failed for "anthropic". Credentials may have expired or network is unavailable.',
        ),
        (errors.model_not_found("invalid", "model"), "Model not found: invalid/model"),
        (errors.unknown_command("x"), "Unknown command: x"),
        (errors.ALREADY_COMPACTED, "Already compacted"),
        (errors.NOTHING_TO_COMPACT, "Nothing to compact (session too small)"),
        (errors.COMPACTION_CANCELLED, "Compaction cancelled"),
        (errors.RETRY_CANCELLED, "Retry cancelled"),
        (errors.REQUEST_ABORTED, "Request was aborted"),
        (errors.SESSION_NAME_EMPTY, "Session name cannot be empty"),
        (errors.FORK_INVALID_ENTRY, "Invalid entry ID for forking"),
        (errors.CLONE_NO_ENTRY, "Cannot clone session: no current entry selected"),
        (errors.EXPORT_IN_MEMORY, "Cannot export in-memory session to HTML"),
        (errors.EXPORT_NOTHING, "Nothing to export yet - start a conversation first"),
        (errors.entry_not_found("e1"), "Entry not found: e1"),
        (errors.OPERATION_ABORTED, "Operation aborted"),
        (errors.SHELL_ABORTED, "Command aborted"),
        (errors.TOOL_BLOCKED, "Tool execution was blocked"),
        (errors.tool_not_found("x"), "Tool x not found"),
        (errors.shell_timed_out("5"), "Command timed out after 5 seconds"),
        (errors.shell_exited(3), "Command exited with code 3"),
        (
            errors.tool_call_cut("x"),
            'Tool call "x" was not executed: the response hit the output token limit, so its arguments may be '
            "truncated. Re-issue the tool call with complete arguments.",
        ),
        (
            errors.OVERFLOW_AGAIN,
            "Context overflow recovery failed after one compact-and-retry attempt. "
            "Try reducing context or switching to a larger-context model.",
        ),
    ],
)
def test_a_text_that_clients_match_is_kept(text: str, published: str) -> None:
    """R-ERR-05."""
    assert published == text


@pytest.mark.parametrize(
    ("text", "beginning"),
    [
        (errors.parse_error("x"), "Failed to parse command: "),
        (errors.record_too_long(5), "Failed to parse command: "),
        (errors.NO_MODEL, "No model selected.\n\n"),
        (errors.no_api_key("anthropic"), "No API key found for anthropic.\n\n"),
        (errors.no_api_key("unknown"), "No API key found for the selected model.\n\n"),
    ],
)
def test_a_text_of_which_clients_match_the_beginning_keeps_it(text: str, beginning: str) -> None:
    """The rest is ours, and says something."""
    assert text.startswith(beginning)
    assert text != beginning


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("manual", "Compaction failed: no"),
        ("threshold", "Auto-compaction failed: no"),
        ("overflow", "Context overflow recovery failed: no"),
    ],
)
def test_a_failed_compaction_says_which_it_was(reason: str, text: str) -> None:
    """R-CMP-03."""
    assert text == errors.compaction_failed(reason, "no")


def test_a_refused_field_is_worded_with_its_command_and_what_was_expected() -> None:
    """R-ERR-03."""
    assert "Invalid bash command: command must be a string" == errors.invalid_field(
        "bash", "command", "must be a string"
    )


def test_a_record_over_the_limit_gets_the_limit() -> None:
    """R-FRM-08."""
    assert "longer than 64 bytes" in errors.record_too_long(64)


def test_codes_are_words_for_programs() -> None:
    for code in ErrorCode:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)*", code)
        assert code == code.name.lower()


def test_a_refusal_says_what_went_wrong_twice() -> None:
    """R-ERR-05."""
    error = ClientError("no such thing", ErrorCode.SESSION_NOT_FOUND)

    assert ("no such thing", "no such thing", ErrorCode.SESSION_NOT_FOUND) == (str(error), error.text, error.code)


def test_the_base_of_all_errors_is_never_raised_itself() -> None:
    with pytest.raises(TypeError):
        ProtocolError("x", ErrorCode.BUSY)


def test_no_text_gives_away_how_this_program_is_made() -> None:
    """A client's user reads them: no names of modules, classes or of the original's runtime."""
    texts = [value for name, value in vars(errors).items() if name.isupper() and isinstance(value, str)]

    assert len(texts) > 15
    assert not [text for text in texts if re.search(r"pinnace_|Traceback|undefined|Exception|TypeError", text)]
