"""Dialogs: each ends once, by its answer, its time, a cancellation or the end of those who could answer."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pytest
import trio
import trio.testing

from pinnace_agent.extensions.api.user_interface import RpcUserInterface, ThemeResult, UserInterface
from pinnace_agent.extensions.registration.registrations import Generation, StaleContextError
from pinnace_agent.extensions.services.dialogs import DialogTable
from pinnace_spec.records.ui_requests import AnyUiRequest

if TYPE_CHECKING:
    from tests.agent.extensions.conftest import Rig

    from pinnace_agent.extensions.api.contexts import Context

Frame = Mapping[str, object]


class DialogBench:
    """An interface, its frames, and a client that answers."""

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.spans: list[tuple[str, str, str]] = []
        self.generation = Generation()
        self.table = DialogTable(self.frames.append, lambda *span: self.spans.append(span))
        self.ui = RpcUserInterface(self.generation, self.table, self.frames.append)

    async def asked(self) -> Frame:
        await trio.testing.wait_all_tasks_blocked()
        return self.frames[-1]

    async def reply(self, **fields: object) -> bool:
        frame = await self.asked()
        return self.table.answer({"type": "extension_ui_response", "id": frame["id"], **fields})


@pytest.fixture
def bench() -> DialogBench:
    return DialogBench()


async def ask(function: Callable[[], object], answers: list[object]) -> None:
    answer = function()
    assert hasattr(answer, "__await__")
    answers.append(await answer)


@pytest.mark.parametrize("ending", ["timeout", "cancelled", "closed", "answered"])
async def test_a_dialog_that_ends_without_an_answer_is_taken_back_once(
    bench: DialogBench, autojump_clock: object, ending: str
) -> None:
    """R-UI-08."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, lambda: bench.ui.confirm("Sure?", "", timeout=2.5 if ending == "timeout" else None), [])
        asked = dict(await bench.asked())
        match ending:
            case "cancelled":
                nursery.cancel_scope.cancel()
            case "closed":
                bench.table.close_all()
                bench.table.close_all(for_good="the client is gone")
            case "answered":
                await bench.reply(confirmed=True)
            case _:
                await trio.sleep(3)

    reason = "timeout" if ending == "timeout" else "cancelled"
    taken_back = [{"type": "extension_ui_resolved", "id": asked["id"], "reason": reason}]
    assert ([] if ending == "answered" else taken_back) == bench.frames[1:]


async def test_a_choice_is_requested_and_returned(bench: DialogBench) -> None:
    answers: list[object] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, lambda: bench.ui.select("Which?", ["a", "b"], timeout=2.5), answers)
        frame = dict(await bench.asked())
        await bench.reply(value="b")

    assert ["b"] == answers
    assert len(str(frame.pop("id"))) == 36
    expected = {"type": "extension_ui_request", "method": "select", "title": "Which?", "options": ["a", "b"]}
    assert expected | {"timeout": 2500} == frame


@pytest.mark.parametrize(
    ("question", "reply", "expected"),
    [
        (lambda ui: ui.confirm("T", "M"), {"confirmed": True}, True),
        (lambda ui: ui.confirm("T", "M"), {"confirmed": False}, False),
        (lambda ui: ui.confirm("T", "M"), {"cancelled": True}, False),
        (lambda ui: ui.confirm("T", "M"), {"confirmed": True, "cancelled": True}, False),
        (lambda ui: ui.confirm("T", "M"), {"value": "yes"}, False),
        (lambda ui: ui.confirm("T", "M"), {"confirmed": 1}, False),
        (lambda ui: ui.select("T", ["a"]), {"value": "a"}, "a"),
        (lambda ui: ui.select("T", ["a"]), {"value": "z"}, None),
        (lambda ui: ui.select("T", ["a"]), {"value": ["a"]}, None),
        (lambda ui: ui.select("T", ["a"]), {"confirmed": True}, None),
        (lambda ui: ui.input("T", "P"), {"value": ""}, ""),
        (lambda ui: ui.input("T"), {}, None),
        (lambda ui: ui.editor("T", "text"), {"value": "more\ntext"}, "more\ntext"),
        (lambda ui: ui.editor("T"), {"cancelled": True}, None),
    ],
)
async def test_an_answer_of_the_wrong_kind_counts_as_cancelled(
    bench: DialogBench, question: Callable[[UserInterface], object], reply: Frame, expected: object
) -> None:
    """R-UI-01"""
    answers: list[object] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, lambda: question(bench.ui), answers)
        assert await bench.reply(**reply)

    assert [expected] == answers
    assert 0 == len(bench.table)


@pytest.mark.parametrize("request_id", ["unknown", None, 3, ["x"], {}])
async def test_an_answer_that_no_dialog_waits_for_is_dropped(bench: DialogBench, request_id: object) -> None:
    """R-UI-01"""
    assert not bench.table.answer({"type": "extension_ui_response", "id": request_id, "value": "a"})
    assert not bench.table.answer({})


async def test_a_dialog_has_its_default_after_its_time_and_a_late_answer_is_dropped(
    bench: DialogBench, autojump_clock: trio.testing.MockClock
) -> None:
    assert (await bench.ui.confirm("Sure?", "Really?", timeout=5)) is False

    assert not bench.table.answer({"id": bench.frames[0]["id"], "confirmed": True})


async def test_the_time_of_a_dialog_is_its_own(bench: DialogBench, autojump_clock: trio.testing.MockClock) -> None:
    begun = trio.current_time()
    answers: list[object] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, lambda: bench.ui.select("1", ["a"], timeout=3), answers)
        nursery.start_soon(ask, lambda: bench.ui.confirm("2", timeout=1), answers)

    assert [False, None] == answers
    assert 3 == trio.current_time() - begun


async def test_cancelling_the_asking_task_closes_its_dialog(bench: DialogBench) -> None:
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, lambda: bench.ui.confirm("Sure?"), [])
            frame = await bench.asked()
            scope.cancel()

    assert scope.cancelled_caught
    assert not bench.table.answer({"id": frame["id"], "confirmed": True})


async def test_who_is_cancelled_already_asks_nothing(bench: DialogBench) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await bench.ui.confirm("Sure?")

    assert scope.cancelled_caught
    assert [] == bench.frames


async def test_closing_gives_every_open_dialog_its_default_at_once(bench: DialogBench) -> None:
    answers: list[object] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, lambda: bench.ui.select("1", ["a"]), answers)
        nursery.start_soon(ask, lambda: bench.ui.confirm("2"), answers)
        nursery.start_soon(ask, lambda: bench.ui.editor("3"), answers)
        await bench.asked()
        assert 3 == bench.table.close_all()

    assert sorted([None, False, None], key=str) == sorted(answers, key=str)
    assert 0 == len(bench.table)


async def test_after_an_abort_it_can_be_asked_again(bench: DialogBench) -> None:
    bench.table.close_all()
    answers: list[object] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, lambda: bench.ui.confirm("Sure?"), answers)
        await bench.reply(confirmed=True)

    assert [True] == answers


async def test_after_close_all_for_good_no_question_is_sent(bench: DialogBench) -> None:
    """What is shown still goes to a client that reads, although it has closed stdin."""
    bench.table.close_all(for_good="the client is gone")

    assert (await bench.ui.confirm("Sure?")) is False
    bench.ui.notify("goodbye")
    assert ["notify"] == [each["method"] for each in bench.frames]


async def test_several_dialogs_are_matched_by_their_ids(bench: DialogBench) -> None:
    answers: dict[str, object] = {}

    async def one(name: str) -> None:
        answers[name] = await bench.ui.input(name)

    async with trio.open_nursery() as nursery:
        for name in "abc":
            nursery.start_soon(one, name)
        await bench.asked()
        for frame in reversed(bench.frames):
            bench.table.answer({"id": frame["id"], "value": f"for {frame['title']}"})

    assert {name: f"for {name}" for name in "abc"} == answers


async def test_overlapping_dialogs_are_one_span(bench: DialogBench) -> None:
    answers: list[object] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, lambda: bench.ui.confirm("first"), answers)
        first = await bench.asked()
        nursery.start_soon(ask, lambda: bench.ui.input("second"), answers)
        await bench.asked()
        bench.table.answer({"id": first["id"], "confirmed": True})
        await trio.testing.wait_all_tasks_blocked()
        assert [("start", "confirm", "first")] == bench.spans
        await bench.reply(value="x")

    assert [("start", "confirm", "first"), ("end", "confirm", "first")] == bench.spans


@pytest.mark.parametrize("timeout_s", [0, -1])
async def test_a_dialog_without_time_is_not_asked(bench: DialogBench, timeout_s: float) -> None:
    assert (await bench.ui.confirm("Sure?", timeout=timeout_s)) is False
    assert [] == bench.frames


async def test_a_dialog_names_its_tool_call(bench: DialogBench) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask, lambda: bench.ui.confirm("Run it?", tool_call_id="call-1"), [])
        frame = await bench.asked()
        bench.table.close_all()

    assert "call-1" == frame["toolCallId"]


def test_displays_are_sent_as_protocol_records(bench: DialogBench) -> None:
    from pydantic import TypeAdapter

    ui = bench.ui
    ui.notify("done")
    ui.notify("careful", "warning")
    ui.set_status("k", "busy")
    ui.set_status("k")
    ui.set_widget("w", ["1", "2"], "belowEditor")
    ui.set_widget("w")
    ui.set_widget("w", lambda *_: None)
    ui.set_title("T")
    ui.set_editor_text("E")
    ui.paste_to_editor("P")
    shown = [{key: value for key, value in frame.items() if key not in ("type", "id")} for frame in bench.frames]

    assert shown == [
        {"method": "notify", "message": "done"},
        {"method": "notify", "message": "careful", "notifyType": "warning"},
        {"method": "setStatus", "statusKey": "k", "statusText": "busy"},
        {"method": "setStatus", "statusKey": "k"},
        {"method": "setWidget", "widgetKey": "w", "widgetLines": ["1", "2"], "widgetPlacement": "belowEditor"},
        {"method": "setWidget", "widgetKey": "w"},
        {"method": "setTitle", "title": "T"},
        {"method": "set_editor_text", "text": "E"},
        {"method": "set_editor_text", "text": "P", "paste": True},
    ]
    adapter: TypeAdapter[object] = TypeAdapter(AnyUiRequest)
    assert 9 == len([adapter.validate_python(frame) for frame in bench.frames])
    assert 9 == len({frame["id"] for frame in bench.frames})


@pytest.mark.parametrize("has_client", [True, False])
async def test_methods_that_need_a_terminal_do_nothing_as_in_the_original(bench: DialogBench, has_client: bool) -> None:
    ui = bench.ui if has_client else UserInterface(bench.generation)
    ui.set_working_message("m")
    ui.set_working_visible(visible=True)
    ui.set_working_indicator()
    ui.set_hidden_thinking_label("l")
    ui.set_footer(None)
    ui.set_header(None)
    ui.set_editor_component(None)
    ui.add_autocomplete_provider(print)
    ui.set_tools_expanded(expanded=True)
    ui.on_terminal_input(print)()
    assert ui.get_theme("x") is None
    ui.get_editor_component()
    await ui.custom(lambda: None)

    assert ("", [], False) == (ui.get_editor_text(), ui.get_all_themes(), ui.get_tools_expanded())
    text = "Theme switching not supported in RPC mode" if has_client else "UI not available"
    assert ThemeResult(False, text) == ui.set_theme("dark")
    assert "\x1b[31mno\x1b[39m" == ui.theme.fg("error", "no")
    assert "no" == ui.theme.plain.bold(ui.theme.plain.fg("error", "no"))
    assert [] == bench.frames


async def test_without_a_client_every_question_has_its_refusing_answer() -> None:
    ui = UserInterface(Generation())

    answers = [await ui.select("T", ["a"]), await ui.confirm("T"), await ui.input("T"), await ui.editor("T")]
    assert [None, False, None, None] == answers
    ui.notify("x")
    ui.set_status("k", "v")


async def test_an_interface_that_was_kept_raises_when_its_session_is_over(bench: DialogBench) -> None:
    bench.generation.end("the session was replaced by a new one")

    with pytest.raises(StaleContextError, match="with_session"):
        bench.ui.notify("hello")
    with pytest.raises(StaleContextError):
        await bench.ui.confirm("Sure?")
    with pytest.raises(StaleContextError):
        _ = bench.ui.theme


@pytest.mark.parametrize("options", ["abc", [1], [None]])
async def test_options_must_be_strings(bench: DialogBench, options: list[str]) -> None:
    with pytest.raises(TypeError, match="strings"):
        await bench.ui.select("T", options)


async def test_a_dialog_that_is_open_when_the_session_ends_has_its_default_and_leaves_no_handler(rig: "Rig") -> None:
    answers: list[object] = []

    async def handler(ctx: "Context", _event: object) -> None:
        answers.append(await ctx.ui.confirm("Sure?"))

    rig.on("agent_start", handler)
    async with rig.running() as runner, trio.open_nursery() as nursery:
        nursery.start_soon(runner.chains.notify, "agent_start", rig.started)
        await trio.testing.wait_all_tasks_blocked()
        assert 1 == len(runner.dialogs)
        await runner.shutdown("new")

    assert [False] == answers
    assert [] == rig.host.errors
