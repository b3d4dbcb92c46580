"""Calls that a server carries out as tasks: it answers with a handle, and the result comes later.

In 2025-11-25 a call of a tool that says so asks for a task; `tasks/result` brings its result, and before that what it
asks the user. In 2026-07-28 the server decides, where a client offers it (`EXTENSION`): `tasks/get` brings both, and
`tasks/update` takes the answers. The shape of the first answer says which of them it is.

A change of its state that the server notifies ends the wait for the next question about it. In 2025-11-25 servers send
`notifications/tasks/status` unasked; in 2026-07-28 they are asked for `notifications/tasks` by `subscriptions/listen`
where they suggest a wait of more than `LISTENED_WAIT_S`. They need send none, so the state is asked for all the same.

A task may take as long as its server works on it; the time limit of the server is that of each request about it. A
connection that is lost is made anew, since a task outlives it. The abort of a call asks the server to end its task.
What this process has not waited for is lost with it. Rule R-MCP-11.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, suppress
from typing import Final, Protocol

import trio

from pinnace_agent.config.server_entries import is_number
from pinnace_agent.core.nursery import open_flat_nursery
from pinnace_agent.files.relaxed_json import is_object
from pinnace_agent.mcp.ports import CallTimedOut, LinkLost, NeedsAuth, NotConnected, OnProgress, ServerError

EXTENSION: Final = "io.modelcontextprotocol/tasks"
NAMED_BY: Final[Mapping[str, str]] = dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId")
"""What the header with the name of a request repeats, by method."""

_WRONG: Final = -32603
_USUAL_POLL_S: Final = 1.0
_LEAST_POLL_S, _LONGEST_POLL_S = 0.1, 60.0
LISTENED_WAIT_S: Final = 1.0
"""A shorter wait is not worth a request that stays open."""
_MOST_FAILURES: Final = 3
"""In a row, of asking for the state of a task."""
_CANCEL_S: Final = 0.2
"""An abort does not wait longer for the request that ends a task to be sent."""
_MESSAGE_CHARS: Final = 2000


class TaskChanges:
    """The changes of one task that its server has notified, and that nothing has waited for yet."""

    def __init__(self) -> None:
        """There is none."""
        self._event = trio.Event()

    def add(self) -> None:
        """Take a notification."""
        self._event.set()

    async def wait(self, longest_s: float) -> None:
        """Wait for a change: at least `_LEAST_POLL_S`, however much a server notifies, and at most so long."""
        await trio.sleep(_LEAST_POLL_S)
        with trio.move_on_after(longest_s - _LEAST_POLL_S):
            await self._event.wait()
        self._event = trio.Event()


class TaskServer(Protocol):
    """A server, as a task needs it."""

    async def request(
        self, method: str, params: Mapping[str, object], on_progress: OnProgress | None = None
    ) -> Mapping[str, object]:
        """Send a request; see `Server`."""
        ...

    def following(self, task_id: str) -> AbstractContextManager[TaskChanges]:
        """Collect what the server notifies of a task in the block."""
        ...

    async def listen_to(self, task_id: str) -> None:
        """Ask the server for the changes of a task, and wait until it has ended that, or refused it."""
        ...

    async def answers(self, asked: Mapping[str, object]) -> Mapping[str, object]:
        """Answer what a server asks within a result, by its keys."""
        ...


async def outcome(
    server: TaskServer, answer: Mapping[str, object], on_progress: OnProgress | None
) -> Mapping[str, object]:
    """Return the result of a call: its answer, or that of the task which the answer names, when it is there.

    Cancelled, it asks the server to end the task, and does not wait for that.

    Raises:
        ServerError: The task has failed, was cancelled, or is none of the protocol.
        CallTimedOut: A request about it had no answer.
        LinkLost: There is no connection to ask by.
    """
    is_whole = answer.get("resultType") == "task"
    task = answer if is_whole else answer.get("task")
    if not is_object(task):
        return answer
    task_id = task.get("taskId")
    if not isinstance(task_id, str) or not task_id:
        raise ServerError(_WRONG, "it has begun a task without an id")
    try:
        return await _Task(server, task_id, on_progress, is_whole=is_whole).result(task)
    except trio.Cancelled:
        with trio.move_on_after(_CANCEL_S, shield=True), suppress(ServerError, CallTimedOut, LinkLost):
            await server.request("tasks/cancel", {"taskId": task_id})
        raise
    except (NotConnected, NeedsAuth) as error:  # which say of a request that nothing was executed
        raise LinkLost(str(error)) from None


class _Task:
    def __init__(self, server: TaskServer, task_id: str, on_progress: OnProgress | None, *, is_whole: bool) -> None:
        self._server = server
        self._named = {"taskId": task_id}
        self._on_progress = on_progress
        self._is_whole = is_whole
        """Whether its states hold questions and result."""
        self._shown = ""
        self._count = 0
        self._answered: set[str] = set()
        self._is_listening = False

    async def result(self, task: Mapping[str, object]) -> Mapping[str, object]:
        """Follow it from a state to its result."""
        task_id = self._named["taskId"]
        with self._server.following(task_id) as changes:
            async with open_flat_nursery() as nursery:
                while True:
                    self._show(task.get("statusMessage"))
                    found = await (self._of_whole(task) if self._is_whole else self._of_handle(task))
                    if found is not None:
                        nursery.cancel_scope.cancel()
                        return found
                    wait_ms = task.get("pollIntervalMs" if self._is_whole else "pollInterval")
                    wait_s = wait_ms / 1000 if is_number(wait_ms) else _USUAL_POLL_S
                    if self._is_whole and wait_s > LISTENED_WAIT_S and not self._is_listening:
                        self._is_listening = True
                        nursery.start_soon(self._server.listen_to, task_id)
                    await changes.wait(min(max(wait_s, _LEAST_POLL_S), _LONGEST_POLL_S))
                    task = await self._state()

    def _show(self, message: object) -> None:
        if isinstance(message, str) and message != self._shown:
            self._shown = message
            self._count += 1
            if self._on_progress is not None and message:
                self._on_progress(self._count, None, message[:_MESSAGE_CHARS])

    async def _state(self) -> Mapping[str, object]:
        for failures in range(1, _MOST_FAILURES + 1):
            try:
                return await self._server.request("tasks/get", self._named)
            except NeedsAuth:
                raise
            except (CallTimedOut, LinkLost):
                if failures == _MOST_FAILURES:
                    raise
                await trio.sleep(_USUAL_POLL_S)
        raise AssertionError

    async def _of_whole(self, task: Mapping[str, object]) -> Mapping[str, object] | None:
        """Return the result that a state holds; None: it works. Answers what it asks, each question once."""
        match task.get("status"):
            case "working":
                return None
            case "input_required":
                asked = task.get("inputRequests")
                new = (
                    {key: each for key, each in asked.items() if key not in self._answered} if is_object(asked) else {}
                )
                if new:
                    answers = await self._server.answers(new)
                    self._answered |= new.keys()
                    await self._server.request("tasks/update", {**self._named, "inputResponses": answers})
                return None
            case "completed" if is_object(result := task.get("result")):
                return result
            case "failed" if is_object(error := task.get("error")):
                code = error.get("code")
                raise ServerError(code if isinstance(code, int) else _WRONG, str(error.get("message") or self._shown))
            case status:
                raise self._wrong(status)

    async def _of_handle(self, task: Mapping[str, object]) -> Mapping[str, object] | None:
        """Return the result of a task whose states have none; None: it works."""
        match task.get("status"):
            case "working":
                return None
            case "input_required":
                # The server asks while it is asked for the result, which may take longer than the question.
                with suppress(CallTimedOut):
                    return await self._server.request("tasks/result", self._named, self._on_progress)
                return None
            case "completed" | "failed":  # the answer is what the call would have had, an error for example
                return await self._server.request("tasks/result", self._named, self._on_progress)
            case status:
                raise self._wrong(status)

    def _wrong(self, status: object) -> ServerError:
        if status == "cancelled":
            return ServerError(_WRONG, f"the task was cancelled by the server: {self._shown}".removesuffix(": "))
        return ServerError(_WRONG, f"the task has the state {str(status)[:100]}, without what belongs to it")
