"""Errors of extensions: which exceptions are failures of an extension."""

import trio

from pinnace_agent.extensions.services.error_records import (
    failure_record,
    failure_text,
    ownership,
)


def test_cancellations_and_interrupts_pass() -> None:
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


async def test_a_raised_generator_exit_is_a_failure() -> None:
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


def test_the_record_of_a_failure_has_the_place() -> None:
    try:
        raise ValueError("no good")
    except ValueError as error:
        record = failure_record("/ext/a.py", "context", error, hint="look there")
    assert ("/ext/a.py", "context", "no good (look there)") == record[:3]
    assert "test_the_record_of_a_failure" in (record.stack or "")
