"""One server during a session: it is connected, listed, restarted and called. No failure of it leaves its task.

    starting -> connecting -> connected -> disconnected -> connecting ...
                    |-> failed, needs-auth: until it is asked for again         closed

Decides when there is a connection and what a call may do with it; `wire` makes it. A call is sent once: it may have
taken effect whatever happens then.

A program in a sandbox sees what was there at its start: keys that have come since are not hidden from it, and a mount
ends where the user's program replaces a file. So a server whose view is no longer that of a new one is replaced: before
a call, and every few seconds beside it. Open calls may end before, within a limit.
"""

import math
import random
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Final, Literal, Protocol, TypeAlias

import trio

from pinnace_agent.config.server_entries import ServerEntry, is_number
from pinnace_agent.core.nursery import open_flat_nursery
from pinnace_agent.files.relaxed_json import is_list, is_object
from pinnace_agent.mcp import limits
from pinnace_agent.mcp.definitions import OfferedTool, WrongTool, read_tool
from pinnace_agent.mcp.ports import (
    CallTimedOut,
    Challenge,
    LinkLost,
    NeedsAuth,
    NotConnected,
    OnProgress,
    ServerError,
    ServerLink,
    SessionExpired,
    Unreachable,
)
from pinnace_agent.mcp.tasks import TaskChanges

State: TypeAlias = Literal["disabled", "starting", "connecting", "connected", "disconnected", "failed", "needs-auth"]

_RESTARTS_S: Final = (1.0, 2.0, 4.0, 8.0, 16.0)
_LASTING_S: Final = 60.0
"""After this long in service a server is restarted as if for the first time."""
_TRIES_S: Final = (0.25, 1.0)
"""Until a server over HTTP is tried again that could not be reached."""
_LONGEST_ASKED_S: Final = 10.0
"""A server that asks to wait for longer is not tried again by itself."""
VIEW_S: Final = 5.0
"""Between two looks at whether a server in a sandbox sees what a new one would."""
RENEWAL_S: Final = 60.0
"""How long open calls may go on once it does not."""
_METHOD_NOT_FOUND: Final = -32601
_MOST_CHANGED_TASKS: Final = 64
_LONGEST_TASK_ID: Final = 1000
_LIST_QUIET_S: Final = 0.5
_LIST_EVERY_S: Final = 2.0


class OpenLink(Protocol):
    """Connects to a server; raises `LinkLost` when there is no connection, or it has ended."""

    async def __call__(self, server: "Server", use: Callable[[ServerLink], Awaitable[None]]) -> None:
        """Let `use` have the connection."""


class Server:
    """A configured MCP server and its connection, which comes and goes."""

    def __init__(self, entry: ServerEntry, open_link: OpenLink, report: Callable[["Server"], None]) -> None:
        """Begin without a connection.

        Args:
            entry: Its configuration.
            open_link: Connects to it.
            report: Called when its state or its tools have changed.
        """
        self.entry = entry
        self.state: State = "starting" if entry.is_enabled else "disabled"
        self.error: str | None = None
        """Why it is not connected, in one line."""
        self.details = ""
        """What else is known of that: the end of the server's stderr, or the rest of a text."""
        self.tools: Mapping[str, OfferedTool] = {}
        """By what the server calls them, in its order. They stay while it is restarted."""
        self.dropped: Sequence[str] = ()
        """The tools that can't be used, with the reasons."""
        self.dropped_prompts: Sequence[str] = ()
        """The prompts, likewise, since they were last listed."""
        self.settled = trio.Event()
        """Set when the first try to connect has ended, or if it is not enabled."""
        self.link: ServerLink | None = None
        self.challenge: Challenge | None = None
        """With what it has refused the last request for want of a token; None: it has not, since it was connected."""
        self._denial: NeedsAuth | None = None
        """The refusal of a call, which ends the connection."""
        self._open_link = open_link
        self._report = report
        self._calls: list[str] = []
        self._tasks: dict[str, TaskChanges] = {}
        """Those that are waited for, by their ids."""
        self._changed_tasks: deque[str] = deque(maxlen=_MOST_CHANGED_TASKS)
        """Others that have changed: perhaps those of answers that are being read."""
        self._open = 0
        """Requests that were sent and have no answer."""
        self._quiet = trio.lowlevel.ParkingLot()
        self._is_over = False
        self._wanted = trio.Event()
        self._changed = trio.Event()
        """The state is another one."""
        self._relist = trio.Event()
        self._counts_until_s = math.inf
        """When the list of its tools counts no longer."""
        self._limit = trio.CancelScope()
        self._attempt = trio.CancelScope()
        if not entry.is_enabled:
            self.settled.set()

    @property
    def name(self) -> str:
        """What the configuration calls the server."""
        return self.entry.name

    def offers(self, what: str) -> bool:
        """Return whether it has said that it has tools, prompts or resources."""
        return self.link is not None and what in self.link.capabilities

    # The connection.

    async def serve(self) -> None:
        """Keep it connected until cancelled."""
        restarts = tries = 0
        is_given_up = True  # also as long as it was never connected
        while True:
            self._wanted = trio.Event()
            self._become("connecting")
            begun_s = trio.current_time()
            was_connected = False
            failure: LinkLost | None = None
            try:
                was_connected = await self._connect()
            except NeedsAuth as error:
                self._denial = error
            except LinkLost as error:
                was_connected, failure = self.state == "connected", error
            self.link = None
            if was_connected:
                is_given_up = False
                if trio.current_time() - begun_s > _LASTING_S:
                    restarts = 0
            wait_s = math.inf
            denial, self._denial = self._denial, None
            if denial is not None:
                is_given_up, self.challenge = True, denial.challenge
                self._become("needs-auth", str(denial))
            elif failure is None:
                continue  # it is to be connected anew
            elif is_given_up:
                if tries < len(_TRIES_S) and self._may_try_again(failure):
                    wait_s, tries = max(_TRIES_S[tries], _asked_s(failure)), tries + 1
                self._become("failed", str(failure), failure.details)
            else:
                if restarts < len(_RESTARTS_S):
                    wait_s = _RESTARTS_S[restarts] * random.uniform(0.8, 1.2)  # no secret
                    restarts += 1
                is_given_up = wait_s == math.inf
                self._become("failed" if is_given_up else "disconnected", str(failure), failure.details)
            if wait_s == math.inf:
                tries = 0
                self.settled.set()
            with trio.move_on_after(wait_s):
                await self._wanted.wait()

    def _may_try_again(self, failure: LinkLost) -> bool:
        """Return whether a server that could not be reached is tried again soon."""
        is_reachable_soon = isinstance(failure, Unreachable) and self.entry.transport == "http"
        return is_reachable_soon and _asked_s(failure) <= _LONGEST_ASKED_S

    async def _connect(self) -> bool:
        """Connect, and return when the connection has been given up; return whether there was one.

        Raises:
            LinkLost: There is none, or it has ended.
        """
        limit_s = min(self.entry.timeout_s, limits.CONNECT_S)
        with (
            trio.CancelScope() as self._attempt,
            trio.CancelScope(deadline=trio.current_time() + limit_s) as self._limit,
        ):
            await self._open_link(self, self._use)
        was_connected = self.state == "connected"
        if self._limit.cancelled_caught:
            raise LinkLost(f"it has not answered within {limit_s:g} seconds")
        return was_connected

    async def _use(self, link: ServerLink) -> None:
        try:
            await self._list(link)
        except (ServerError, CallTimedOut) as error:
            raise LinkLost(f"its tools can't be listed: {str(error) or 'no answer'}") from None
        self._limit.deadline = math.inf
        self.link, self.error, self.challenge = link, None, None
        self._become("connected")
        self.settled.set()
        async with open_flat_nursery() as nursery:
            if link.announces:
                nursery.start_soon(self._listen, link)
            while True:
                with trio.move_on_after(math.inf if link.is_current is None else VIEW_S) as looking:
                    await self._relist.wait()
                if not looking.cancelled_caught:
                    await self._list_again(link)
                if await _is_outdated(link):
                    await self._renew(link)

    async def _listen(self, link: ServerLink) -> None:
        """Have the server report changes of its lists, again after a while when it has ended that; a few times."""
        tries = 0
        while True:
            begun_s = trio.current_time()
            try:
                await link.listen()
            except LinkLost:
                return  # what ends the connection is known there
            except ServerError as error:
                if error.code == _METHOD_NOT_FOUND:
                    return
            if trio.current_time() - begun_s > _LASTING_S:
                tries = 0
            if tries == len(_RESTARTS_S):
                return
            await trio.sleep(_RESTARTS_S[tries] * random.uniform(0.8, 1.2))  # no secret
            tries += 1

    async def _renew(self, link: ServerLink) -> None:
        """Connect anew when no request is open, or after a while."""
        with trio.move_on_after(RENEWAL_S):
            while self._open:
                await self._quiet.park()
        if self.link is link:
            await self._connected_anew()

    async def _connected_anew(self) -> None:
        """Connect anew, and wait until that has begun."""
        self.reconnect()
        await self._changed.wait()

    def fail(self, error: str) -> None:
        """Be of no use, for a reason that is not the server's."""
        self._become("failed", error)
        self.settled.set()

    def end(self) -> None:
        """Be of no use any more: the session has it no longer. Calls that wait for a connection fail."""
        self._is_over = True
        self.fail("the session has it no longer")

    def reconnect(self) -> None:
        """Connect anew, now."""
        self._attempt.cancel()
        self._wanted.set()

    async def connect_anew(self) -> State:
        """Connect anew, wait for what comes of it, and return it."""
        self.reconnect()
        await self._changed.wait()
        while self.state in ("starting", "connecting"):
            await self._changed.wait()
        return self.state

    def deny(self, denial: NeedsAuth) -> None:
        """Give the connection up until the user has signed in."""
        if self.state in ("starting", "connecting", "connected"):
            self._denial = denial
            self._attempt.cancel()
        else:
            self.challenge = denial.challenge
            self._become("needs-auth", str(denial))

    # Tools.

    def tools_changed(self) -> None:
        """List its tools again, soon."""
        self._relist.set()

    def refresh(self) -> None:
        """List its tools again, soon, if the list is older than the server has said that it counts."""
        if trio.current_time() >= self._counts_until_s:
            self._counts_until_s = math.inf
            self.tools_changed()

    async def _list_again(self, link: ServerLink) -> None:
        await trio.sleep(_LIST_QUIET_S)
        self._relist = trio.Event()
        try:
            await self._list(link)
        except (ServerError, CallTimedOut):
            return  # it has those that it had
        self._report(self)
        await trio.sleep(_LIST_EVERY_S - _LIST_QUIET_S)

    async def _list(self, link: ServerLink) -> None:
        found: dict[str, OfferedTool] = {}
        schemas: dict[str, Mapping[str, object]] = {}
        dropped: list[str] = []
        self._counts_until_s = math.inf
        raw = await self.pages(link, "tools/list", "tools", dropped) if "tools" in link.capabilities else []
        size = 0
        for each in raw:
            name = each.get("name") if is_object(each) else None
            tool, reason = None, ""
            try:
                tool = read_tool(each, self.name)
                size += len(str(each))
                if tool.name in found:
                    raise WrongTool("another one has its name")
                if len(found) >= limits.TOOLS:
                    raise WrongTool(f"there are more than {limits.TOOLS}")
                if size > limits.DEFINITION_BYTES:
                    raise WrongTool(f"all definitions have more than {limits.DEFINITION_BYTES >> 20} MiB")
            except WrongTool as error:
                reason = str(error)
            except (RecursionError, TypeError, ValueError) as error:
                # What no rule above covers costs this tool, and not its server.
                reason = f"its definition can't be read ({type(error).__name__})"
            if tool is not None and not reason:
                found[tool.name] = tool
                schema = each.get("inputSchema") if is_object(each) else None
                schemas[tool.name] = schema if is_object(schema) else {}
            elif len(dropped) < limits.PAGES:
                dropped.append(f"{str(name)[:100]}: {reason}")
        for name, reason in link.declare(schemas).items():
            del found[name]
            dropped.append(f"{name[:100]}: {reason}")
        self.tools, self.dropped = found, dropped[: limits.PAGES]

    @property
    def left_out(self) -> list[str]:
        """The tools and prompts that can't be used, with the reasons."""
        return [*self.dropped, *self.dropped_prompts]

    async def pages(self, link: ServerLink, method: str, key: str, problems: list[str] | None = None) -> list[object]:
        """Return all items of a list that comes in pages; what is wrong with the list is added to `problems`.

        Ends where the list is longer than a list of any use: what is kept of a server is bounded.
        """
        items: list[object] = []
        size = 0
        seen: set[str] = set()
        params: dict[str, object] = {}
        problems = [] if problems is None else problems
        for _ in range(limits.PAGES):
            result = await link.request(method, params, self.entry.timeout_s)
            page, cursor = result.get(key), result.get("nextCursor")
            if key == "tools":
                self._limit_age(result.get("ttlMs"))
            items += page if is_list(page) else []
            size += await trio.to_thread.run_sync(_size, page)
            if len(items) > limits.LISTED or size > limits.LISTED_BYTES:
                problems.append(f"{method}: more than {limits.LISTED:,} items, or {limits.LISTED_BYTES >> 20} MiB")
                return items[: limits.LISTED]
            if not isinstance(cursor, str) or not cursor:
                return items
            if cursor in seen:
                problems.append(f"{method}: a cursor came again, so the list ends there")
                return items
            seen.add(cursor)
            params = {"cursor": cursor}
        problems.append(f"{method}: more than {limits.PAGES} pages")
        return items

    def _limit_age(self, ttl_ms: object) -> None:
        """Take how long a page of the list counts; one that says nothing, or no time at all, counts until a change."""
        if is_number(ttl_ms) and ttl_ms > 0:
            self._counts_until_s = min(self._counts_until_s, trio.current_time() + ttl_ms / 1000)

    # Calls.

    @contextmanager
    def calling(self, call_id: str) -> Generator[None]:
        """Have a call of the model open for the block."""
        self._calls.append(call_id)
        try:
            yield
        finally:
            self._calls.remove(call_id)

    @contextmanager
    def following(self, task_id: str) -> Generator[TaskChanges]:
        """Collect what the server notifies of a task in the block."""
        changes = self._tasks[task_id] = TaskChanges()
        if task_id in self._changed_tasks:
            changes.add()
        try:
            yield changes
        finally:
            del self._tasks[task_id]

    def task_changed(self, task_id: str) -> None:
        """Take notice that the state of a task has changed."""
        if (changes := self._tasks.get(task_id)) is not None:
            changes.add()
        else:
            self._changed_tasks.append(task_id[:_LONGEST_TASK_ID])

    async def listen_to(self, task_id: str) -> None:
        """Ask for the changes of a task, and wait until the server has ended that, refuses it, or is away."""
        with suppress(ServerError, LinkLost):
            await (await self.ready()).listen_to(task_id)

    @property
    def only_call(self) -> str | None:
        """The id of the only open call, which a question belongs to then."""
        return self._calls[0] if len(self._calls) == 1 else None

    async def ready(self) -> ServerLink:
        """Return the connection; connect first if there is none.

        Raises:
            NotConnected: There is none.
            NeedsAuth: The user has to sign in.
        """
        while self.link is not None and self.link.ended.is_set():
            await self._changed.wait()  # its processes are being ended
        if self.link is None and not self._is_over and self.state in ("disconnected", "failed", "needs-auth"):
            self._wanted.set()
            await self._changed.wait()
        while self.link is None and self.state in ("starting", "connecting"):
            await self._changed.wait()
        if self.link is not None:
            return self.link
        if self.state == "needs-auth" and self.challenge is not None:
            raise NeedsAuth(self.error or self.state, self.challenge)
        raise NotConnected(self.error or self.state)

    async def request(
        self, method: str, params: Mapping[str, object], on_progress: OnProgress | None = None
    ) -> Mapping[str, object]:
        """Send a request; once more only where the server states that it has not executed it.

        Raises:
            ServerError: The server refuses.
            CallTimedOut: There was no answer.
            NotConnected: There is no connection; the request was not executed.
            LinkLost: The connection has ended.
            NeedsAuth: The user has to sign in; the request was not executed.
        """
        link = await self.ready()
        if await _is_outdated(link):
            await self._renew(link)
            link = await self.ready()
        self._open += 1
        try:
            try:
                return await link.request(method, params, self.entry.timeout_s, on_progress)
            except SessionExpired:
                await self._connected_anew()
                link = await self.ready()
                return await link.request(method, params, self.entry.timeout_s, on_progress)
        except NeedsAuth as error:
            if self.link is link:
                self.deny(error)
            raise
        finally:
            self._open -= 1
            if not self._open:
                self._quiet.unpark_all()

    async def answers(self, asked: Mapping[str, object]) -> Mapping[str, object]:
        """Answer what the server asks within a result, by its keys.

        Raises:
            ServerError: It asks for what is not offered.
            NotConnected, NeedsAuth: There is no connection.
        """
        return await (await self.ready()).answers(asked)

    def _become(self, state: State, error: str | None = None, details: str = "") -> None:
        line, _, rest = (error or "").strip().partition("\n")
        self.state, self.error = state, error and line.rstrip()
        self.details = "\n".join(filter(None, (rest, details)))
        if state != "connected":
            self.link = None
        changed, self._changed = self._changed, trio.Event()
        changed.set()
        self._report(self)


async def _is_outdated(link: ServerLink) -> bool:
    """Return whether the server's program sees something else than a new one would."""
    return link.is_current is not None and not await trio.to_thread.run_sync(link.is_current, abandon_on_cancel=True)


def _size(page: object) -> int:
    """Return about how many bytes a page has; what can't be counted counts as a whole message."""
    try:
        return len(str(page))
    except RecursionError:
        return limits.MESSAGE_BYTES


def _asked_s(failure: LinkLost) -> float:
    """Return how long a server asks to wait until it is tried again."""
    return failure.wait_s or 0.0 if isinstance(failure, Unreachable) else 0.0
