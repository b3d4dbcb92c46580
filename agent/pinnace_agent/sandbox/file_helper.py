"""Performs the calls of the file tools in helpers inside the sandbox, so that the kernel decides what they reach.

A helper is started at the first call, and performs one call at a time; further ones are started for concurrent calls.
A helper whose call was cancelled or that has ended is replaced. Has no knowledge of the policy: it starts a program by
the port that it is given, and that port decides what the program may do.
"""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from io import FileIO
from typing import BinaryIO, Final, Protocol

import trio

from pinnace_agent.files.tool_calls import CHANGING, Answer, CallRefused, FileCall
from pinnace_agent.sandbox.file_frames import FrameError, call_frame, failure_of, read_frame, write_frame
from pinnace_agent.shell.own_programs import own_program

MOST_HELPERS: Final = 4
"""Concurrent calls; further ones wait. A call takes a tenth of a millisecond, and a helper some 6 MiB."""

_RUN: Final = "from pinnace_agent.sandbox.file_program import main; main()"
_REAP_S: Final = 0.5
_COMPLAINT_BYTES: Final = 4096

# Written to a place that the sandbox keeps read-only, and to one that it has mounted.
_REFUSED_BY_MOUNTS: Final = frozenset({errno.EROFS, errno.EBUSY})
# Landlock has no error of its own.
_REFUSED_BY_RULES: Final = frozenset({errno.EACCES, errno.EPERM})


class HelperProcess(Protocol):
    """A process that was started in the sandbox."""

    def kill(self) -> None:
        """Kill it with all its processes."""
        ...

    async def reap(self, limit_s: float) -> int | None:
        """Wait for its end and return its status."""
        ...


class StartsHelpers(Protocol):
    """Starts a program in the sandbox."""

    async def __call__(self, arguments: list[str], *, stdin: int, stdout: int, stderr: int) -> HelperProcess:
        """Start it with these descriptors.

        Raises:
            OSError: It can't be started.
        """
        ...


class FileHelpers:
    """The helpers of one sandbox."""

    def __init__(
        self, start: StartsHelpers, mode: str, *, view: Callable[[], object] = lambda: None, has_mounts: bool = True
    ) -> None:
        """Start nothing yet.

        Args:
            start: Starts a program in the sandbox.
            mode: The mode of the sandbox, for texts.
            view: Returns what a program that is started now would see; a helper that was started with another view is
                replaced, so that what has appeared since is hidden and protected. Blocking.
            has_mounts: Whether the sandbox is made of mounts, or of Landlock's rules.
        """
        self._start = start
        self._view = view
        self._refused = _REFUSED_BY_MOUNTS if has_mounts else _REFUSED_BY_MOUNTS | _REFUSED_BY_RULES
        self._note = f"The sandbox ({mode}) does not allow writing here"
        self._idle: list[_Helper] = []
        self._turns = trio.CapacityLimiter(MOST_HELPERS)
        self._is_closed = False

    async def perform(self, call: FileCall, take: Callable[[bytes], object]) -> Answer:
        """Perform a call. A cancelled one that only reads is abandoned, and one that changes a file is awaited.

        Raises:
            CallRefused: It was refused, or the helper can't be started or has ended.
            OSError: The system has refused it; a note says so if it was for the sandbox.
        """
        async with self._turns:
            helper = await self._helper()
            is_usable = False
            try:
                answer = await trio.to_thread.run_sync(
                    helper.exchange, call, take, abandon_on_cancel=call.name not in CHANGING
                )
                is_usable = True
            except _Failed as failed:
                is_usable = True
                raise self._explained(failed.error, call) from None
            except (FrameError, OSError) as error:
                if call.name not in CHANGING:
                    raise CallRefused("The file helper of the sandbox has ended. Try again.") from error
                text = f"The file helper of the sandbox has ended during the call: {call.path} may have been changed."
                raise CallRefused(f"{text} Read it before you change it again.") from error
            finally:
                if is_usable and not self._is_closed:
                    self._idle.append(helper)
                else:
                    await helper.end()
        return answer

    async def aclose(self) -> None:
        """End the helpers, also those whose calls are under way."""
        self._is_closed = True
        while self._idle:
            await self._idle.pop().end()

    async def _helper(self) -> "_Helper":
        try:
            view = await trio.to_thread.run_sync(self._view)
        except OSError as error:
            raise CallRefused(_not_set_up(error)) from error
        while self._idle:
            helper = self._idle.pop()
            if helper.view == view and helper.is_alive():
                return helper
            await helper.end()
        return await _started(self._start, view)

    def _explained(self, error: Exception, call: FileCall) -> Exception:
        is_change = call.name in CHANGING or call.name in ("check editable", "check writable")
        if isinstance(error, OSError) and is_change and error.errno in self._refused:
            error.add_note(self._note)
        return error


class _Failed(Exception):
    """A call that the helper has answered with an error."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class _Helper:
    """One process. Its pipes belong to the thread of a call while there is one."""

    def __init__(
        self, process: HelperProcess, view: object, calls: BinaryIO, answers: BinaryIO, complaints: FileIO
    ) -> None:
        self.view = view
        self._process = process
        self._calls = calls
        self._answers = answers
        self._complaints = complaints
        self._is_busy = self._is_ended = False

    def await_ready(self) -> bool:
        """Return whether the program runs; blocks until it is known."""
        self._is_busy = True
        try:
            return read_frame(self._answers) is not None
        except (FrameError, OSError):
            return False
        finally:
            self._finish()

    def exchange(self, call: FileCall, take: Callable[[bytes], object]) -> Answer:
        """Have one call performed. For a thread of trio."""
        self._is_busy = True
        try:
            write_frame(self._calls, call_frame(call))
            while (frame := read_frame(self._answers)) is not None:
                if "piece" in frame.header:
                    trio.from_thread.check_cancelled()
                    take(frame.data)
                elif "bytes" in frame.header:
                    return frame.data
                elif "failure" in frame.header:
                    raise _Failed(failure_of(frame.header))
                else:
                    return frame.header["answer"]  # type: ignore[return-value]
            raise FrameError
        finally:
            self._finish()

    def is_alive(self) -> bool:
        """Return whether the process has not closed its end."""
        import select

        return not select.select([self._answers], [], [], 0)[0]

    def complaint(self) -> str:
        """Return the beginning of what the process has written on stderr, in one line. It has ended."""
        text = (self._complaints.read(_COMPLAINT_BYTES) or b"").decode("utf-8", "replace")
        return " ".join(text.split())

    async def end(self) -> None:
        """Kill and reap it. An abandoned thread finds the end of the pipe, and closes it."""
        self._process.kill()
        with trio.CancelScope(shield=True):
            await self._process.reap(_REAP_S)
        self._is_ended = True
        if not self._is_busy:
            self._close()

    def _finish(self) -> None:
        self._is_busy = False
        if self._is_ended:
            self._close()

    def _close(self) -> None:
        for stream in (self._calls, self._answers, self._complaints):
            with suppress(OSError):  # what was not written can't be
                stream.close()


async def _started(start: StartsHelpers, view: object) -> _Helper:
    """Start a helper and wait until it is ready.

    Raises:
        CallRefused: It can't be started.
    """
    ends: list[int] = []
    try:
        for _ in range(3):
            ends += os.pipe()
        theirs = (ends[0], ends[3], ends[5])
        ours = (ends[1], ends[2], ends[4])
        os.set_blocking(ours[2], False)
        process = await start(
            own_program(_RUN),
            stdin=theirs[0],
            stdout=theirs[1],
            stderr=theirs[2],
        )
    except BaseException as error:
        for end in ends:
            os.close(end)
        if isinstance(error, OSError):
            raise CallRefused(_not_set_up(error)) from error
        raise
    for end in theirs:
        os.close(end)
    helper = _Helper(process, view, os.fdopen(ours[0], "wb"), os.fdopen(ours[1], "rb"), FileIO(ours[2], "rb"))
    is_ready = False
    try:
        is_ready = await trio.to_thread.run_sync(helper.await_ready, abandon_on_cancel=True)
        if not is_ready:
            raise CallRefused(_not_set_up(helper.complaint()))
    finally:
        if not is_ready:
            await helper.end()
    return helper


def _not_set_up(reason: object) -> str:
    return f"The file was not opened: the sandbox could not be set up ({reason})"
