"""Errors of extensions: whose an exception is, and who is told."""

import trio

from pinnace_agent.extensions.error_records import (
    ErrorListeners,
    failure_record,
    failure_text,
    ownership,
    wire_record,
)
from pinnace_agent.extensions.registrations import ErrorRecord

RECORD = ErrorRecord("/ext/a.py", "tool_call", "no good", "Traceback")


def test_an_error_on_the_wire_has_no_stack() -> None:
    """R16"""
    expected = {"type": "extension_error", "extensionPath": "/ext/a.py", "event": "tool_call", "error": "no good"}
    assert expected == wire_record(RECORD)


def test_a_listener_that_fails_keeps_the_error_from_nobody() -> None:
    told: list[ErrorRecord] = []

    def fail(_record: ErrorRecord) -> None:
        raise ValueError("my own fault")

    listeners = ErrorListeners(fail, told.append)
    remove = listeners.add(told.append)
    listeners(RECORD)
    assert [RECORD, RECORD] == told
    remove()
    remove()
    listeners(RECORD)
    assert [RECORD] * 3 == told


def test_what_is_not_the_extensions_passes() -> None:
    """R17"""
    error = KeyboardInterrupt()
    assert (error, None) == ownership(error)
    passing, failure = ownership(BaseExceptionGroup("both", [error, ValueError("x")]))
    assert error is passing
    assert "x" == failure_text(failure or KeyError())


def test_a_coroutine_that_is_closed_ends() -> None:
    """R17"""
    error = GeneratorExit()
    assert (error, None) == ownership(error)


async def test_what_closes_coroutines_is_a_failure_when_a_handler_raises_it() -> None:
    """R17"""
    error = GeneratorExit()
    assert (None, error) == ownership(error)


async def test_nested_cancellations_come_out_as_one() -> None:
    """R17"""
    seen: list[object] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as cancelled:
            group = BaseExceptionGroup("in", [cancelled, BaseExceptionGroup("out", [cancelled])])
            seen += ownership(group)
            raise
    assert isinstance(seen[0], trio.Cancelled)
    assert seen[1] is None


def test_the_record_of_a_failure_says_where_it_happened() -> None:
    try:
        raise ValueError("no good")
    except ValueError as error:
        record = failure_record("/ext/a.py", "context", error, hint="look there")
    assert ("/ext/a.py", "context", "no good (look there)") == record[:3]
    assert "test_the_record_of_a_failure" in (record.stack or "")
