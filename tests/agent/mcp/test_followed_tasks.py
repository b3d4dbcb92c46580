"""How a task of a server is followed: its pace, its failures, its end."""

import itertools
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

import pytest
import trio
from trio.testing import MockClock

from pinnace_agent.mcp.ports import CallTimedOut, Challenge, LinkLost, NeedsAuth, NotConnected, ServerError
from pinnace_agent.mcp.tasks import TaskChanges, outcome

Answer = Mapping[str, object] | Exception
TASK: Mapping[str, object] = {"taskId": "t", "status": "working", "pollIntervalMs": 2000}
BEGUN = {"resultType": "task", **TASK}
DONE: Mapping[str, object] = {**TASK, "status": "completed", "result": {"content": []}}


class Scripted:
    """A server that answers one request after the other, and keeps what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.asked: list[tuple[str, float]] = []
        self.changes = TaskChanges()
        self.listened: list[str] = []
        self.announced_s: Sequence[float] = ()
        """The waits between changes that are notified to those who listen."""
        self.notifies = 0
        """How many requests a change is notified during."""
        self.params: list[Mapping[str, object]] = []

    async def request(
        self, method: str, params: Mapping[str, object], on_progress: object = None
    ) -> Mapping[str, object]:
        del on_progress
        self.asked.append((method, trio.current_time()))
        self.params.append(params)
        await trio.lowlevel.checkpoint()
        if self.notifies:
            self.notifies -= 1
            self.changes.add()
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @contextmanager
    def following(self, task_id: str) -> Generator[TaskChanges]:
        assert task_id == "t"
        yield self.changes

    async def listen_to(self, task_id: str) -> None:
        self.listened.append(task_id)
        for wait_s in self.announced_s:
            await trio.sleep(wait_s)
            self.changes.add()
        await trio.sleep_forever()

    async def answers(self, asked: Mapping[str, object]) -> Mapping[str, object]:
        return {key: {"action": "decline"} for key in asked}


async def test_an_ordinary_answer_is_the_result() -> None:
    answer = {"content": [], "resultType": "complete"}
    assert answer is await outcome(Scripted(), answer, None)


@pytest.mark.parametrize(
    ("interval", "waits"),
    [
        (2000, [2.0, 2.0]),
        (0, [0.1, 0.1]),
        (-5, [0.1, 0.1]),
        (10**9, [60.0, 60.0]),
        ("soon", [1.0, 1.0]),
        (None, [1.0, 1.0]),
    ],
)
async def test_a_server_is_asked_at_the_pace_that_it_suggests_within_bounds(
    autojump_clock: MockClock, interval: object, waits: Sequence[float]
) -> None:
    state = {**TASK, "pollIntervalMs": interval}
    server = Scripted(state, DONE)

    assert {"content": []} == await outcome(server, {**BEGUN, "pollIntervalMs": interval}, None)
    times = [0.0, *(time for _, time in server.asked)]
    assert waits == pytest.approx([after - before for before, after in itertools.pairwise(times)])


async def test_a_notified_change_ends_the_wait_where_it_is_long_enough_to_ask_for_notifications(
    autojump_clock: MockClock,
) -> None:
    state = {**TASK, "pollIntervalMs": 60_000}
    server = Scripted(state, state, DONE)
    server.announced_s = (5, 5, 5)

    assert {"content": []} == await outcome(server, {**BEGUN, "pollIntervalMs": 60_000}, None)
    assert ["t"] == server.listened
    assert [5.0, 10.0, 15.0] == pytest.approx([time for _, time in server.asked])
    short = Scripted(DONE)
    await outcome(short, {**BEGUN, "pollIntervalMs": 1000}, None)
    assert [] == short.listened


async def test_a_notification_that_comes_while_the_state_is_asked_for_is_not_lost(autojump_clock: MockClock) -> None:
    """Nor does a server that notifies without end have it asked for without a pause; of 2025-11-25."""
    working, done = {"taskId": "t", "status": "working", "pollInterval": 9000}, {"taskId": "t", "status": "completed"}
    server = Scripted(working, working, done, {"content": []})
    server.notifies = 3

    assert {"content": []} == await outcome(server, {"task": working}, None)
    assert [] == server.listened
    assert [9.0, 9.1, 9.2, 9.2] == pytest.approx([time for _, time in server.asked])


@pytest.mark.parametrize("lost", [LinkLost("cut"), NotConnected("away"), CallTimedOut()])
async def test_two_failures_in_a_row_are_borne(autojump_clock: MockClock, lost: Exception) -> None:
    assert {"content": []} == await outcome(Scripted(lost, lost, TASK, lost, DONE), BEGUN, None)


@pytest.mark.parametrize(
    ("lost", "expected"),
    [
        ([LinkLost("cut")] * 3, LinkLost),
        ([CallTimedOut()] * 3, CallTimedOut),
        # Not as what was not executed: the task may have had its effect.
        ([NotConnected("away")] * 3, LinkLost),
        ([NeedsAuth("sign in", Challenge(401, ""))], LinkLost),
        ([ServerError(-32602, "no such task")], ServerError),
    ],
)
async def test_a_task_that_can_not_be_asked_for_fails_its_call(
    autojump_clock: MockClock, lost: Sequence[Exception], expected: type[Exception]
) -> None:
    server = Scripted(*lost)
    with pytest.raises(expected) as failed:
        await outcome(server, BEGUN, None)
    assert type(failed.value) is expected
    assert len(lost) == len(server.asked)


async def test_a_question_that_stays_is_answered_once(autojump_clock: MockClock) -> None:
    asks = {**TASK, "status": "input_required", "inputRequests": {"a": {}, "b": {}}}
    server = Scripted(asks, {}, asks, {**asks, "inputRequests": {"b": {}, "c": {}}}, {}, DONE)

    await outcome(server, BEGUN, None)
    updates = [
        params["inputResponses"]
        for (method, _), params in zip(server.asked, server.params, strict=True)
        if method == "tasks/update"
    ]
    assert [["a", "b"], ["c"]] == [list(each) for each in updates if isinstance(each, dict)]


async def test_a_result_that_takes_longer_than_a_question_is_waited_for(autojump_clock: MockClock) -> None:
    asks = {"taskId": "t", "status": "input_required"}
    server = Scripted(CallTimedOut(), {"taskId": "t", "status": "completed"}, {"content": []})

    assert {"content": []} == await outcome(server, {"task": asks}, None)
    assert ["tasks/result", "tasks/get", "tasks/result"] == [method for method, _ in server.asked]


@pytest.mark.parametrize("answer", [{}, ServerError(-32602, "over"), LinkLost("cut"), CallTimedOut()])
async def test_a_cancelled_call_cancels_its_task_whatever_the_server_says(
    autojump_clock: MockClock, answer: Answer
) -> None:
    server = Scripted(answer)
    with trio.move_on_after(1) as scope:
        await outcome(server, BEGUN, None)

    assert scope.cancelled_caught
    ((method, time_s),) = server.asked
    assert method == "tasks/cancel"
    assert time_s == pytest.approx(1)
    assert [{"taskId": "t"}] == server.params


@pytest.mark.parametrize("task_id", [None, "", 5])
async def test_a_task_without_an_id_is_none(task_id: object) -> None:
    with pytest.raises(ServerError, match="without an id"):
        await outcome(Scripted(), {**BEGUN, "taskId": task_id}, None)
