"""Errors of extensions: which exceptions are failures of an extension."""

import asyncio
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio

from pinnace_agent.extensions.services.error_records import (
    failure_record,
    failure_text,
    ownership,
)


def test_cancellations_and_interrupts_pass() -> None:
    error = KeyboardInterrupt()
    assert (error, None) == ownership(error)
    passing, failure = ownership(BaseExceptionGroup("both", [error, ValueError("x")]))
    assert error is passing
    assert "x" == failure_text(failure or KeyError())


def test_a_coroutine_that_is_closed_ends() -> None:
    error = GeneratorExit()
    assert (error, None) == ownership(error)


async def test_a_raised_generator_exit_is_a_failure() -> None:
    error = GeneratorExit()
    assert (None, error) == ownership(error)


async def test_nested_cancellations_come_out_as_one() -> None:
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
    assert ("/ext/a.py", "context", "ValueError: no good (look there)") == record[:3]
    assert "test_the_record_of_a_failure" in (record.stack or "")


FAILING = {
    "raised": ("raise ValueError('on purpose')", "ValueError: on purpose (gate.py, line 5)"),
    "below": ("[].pop()", "IndexError: pop from empty list (gate.py, line 5)"),
    "without a text": ("assert False", "AssertionError (gate.py, line 5)"),
    "an exit": ("raise SystemExit(3)", "(SystemExit: 3); use ctx.shutdown() instead (gate.py, line 5)"),
    "in a library": ("json.loads('{')", "JSONDecodeError: Expecting property name"),
}
OF_ASYNCIO = [
    "await asyncio.sleep(0)",
    "await asyncio.sleep(1)",
    "await asyncio.to_thread(print)",
    "await asyncio.Event().wait()",
    "await asyncio.new_event_loop().create_future()",
    "asyncio.get_running_loop()",
]


async def failure_of(line: str, folder: Path) -> str:
    """Return the error text of an extension's handler with this line."""
    file = folder / "gate.py"
    file.write_text(f"import asyncio\nimport json\n\nasync def handler():\n    {line}\n")
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    try:
        await names["handler"]()
    except BaseException as error:
        return failure_record(str(file), "tool_call", error).error
    raise AssertionError(line)


@pytest.mark.parametrize("name", FAILING)
async def test_an_error_has_its_type_file_and_line(name: str, tmp_path: Path) -> None:
    """The line is one of the extension's own files, also where a library has raised."""
    line, expected = FAILING[name]
    text = await failure_of(line, tmp_path)
    assert expected in text
    assert text.endswith("(gate.py, line 5)")


@pytest.mark.parametrize("line", OF_ASYNCIO)
async def test_an_error_of_asyncio_says_what_to_use_instead(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(asyncio.new_event_loop()) as loop:  # one that is left open is a warning, in whichever test comes next
        monkeypatch.setattr(asyncio, "new_event_loop", lambda: loop)
        text = await failure_of(line, tmp_path)
    assert "extensions run under trio, not asyncio: use trio.sleep" in text
    assert text.endswith("(gate.py, line 5)")
