"""`--tool-approval`: what is asked, what is blocked, and that every failure blocks."""

import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.extensions.builtin.approval_question import examine, question
from pinnace_agent.extensions.builtin.tool_approval import APPROVAL_MODES, ApprovalMode, tool_approval
from pinnace_agent.extensions.events import BashCall, WriteCall
from pinnace_agent.extensions.handler_context import Context
from pinnace_agent.extensions.host_view import ToolInfo
from pinnace_agent.extensions.loading import Inline, Loader
from pinnace_agent.extensions.results import Block
from pinnace_agent.extensions.runner import Runner
from pinnace_agent.files.protected import Places
from pinnace_agent.tools.base import ToolError
from pinnace_agent.tools.paths import resolve_path

if TYPE_CHECKING:
    from tests.agent.conftest import Rig

BUILT_IN = ("read", "bash", "edit", "write", "grep", "find", "ls")
Open = Callable[..., AbstractAsyncContextManager[Runner]]


def tool(name: str, source: str = "local", *, is_read_only: bool = False) -> ToolInfo:
    return ToolInfo(name, "does it", {}, {"path": f"<{source}>", "source": source}, is_read_only=is_read_only)


@pytest.fixture
def gate(rig: "Rig", tmp_path: Path) -> Open:
    """Runs the extension of a mode."""
    rig.host.tools = [tool(name, "builtin") for name in BUILT_IN]
    rig.host.frames = Frames()
    rig.host.session.cwd = str(tmp_path / "project")
    (tmp_path / "project").mkdir()

    @asynccontextmanager
    async def run(mode: ApprovalMode, timeout_s: float | None = None) -> AsyncIterator[Runner]:
        loader = Loader(rig.generation, cwd="/")
        places = partial(Places, str(tmp_path / "home"), str(tmp_path / "agent"), (str(tmp_path / "project/gate.py"),))
        report = await loader.load([], [Inline("builtin:tool-approval", tool_approval(mode, timeout_s, places))])
        assert [] == report.failures
        apis = {each.extension: each.api for each in report.loaded}
        async with rig.running(
            Runner([*rig.extensions, *report.extensions], rig.generation, rig.host.port, apis=apis)
        ) as runner:
            await runner.start("startup")
            yield runner

    return run


class Frames(list[Mapping[str, object]]):
    """What is sent to the client; tells when there is more."""

    def __init__(self) -> None:
        super().__init__()
        self.more = trio.Event()

    def append(self, frame: Mapping[str, object]) -> None:
        super().append(frame)
        self.more.set()


async def asked(
    runner: Runner,
    rig: "Rig",
    name: str,
    *answers: object,
    on_question: Callable[[], None] = lambda: None,
    bind: Callable[[str], None] | None = None,
    **arguments: Any,
) -> Block | None:
    """Let the gate ask about a call, and give one answer after another; `on_question` is called before the first."""
    outcome: list[Block | None] = []
    frames = rig.host.frames
    assert isinstance(frames, Frames)

    async def answer() -> None:
        for number, each in enumerate(answers):
            await frames.more.wait()
            frames.more = trio.Event()
            if number == 0:
                on_question()
            runner.dialogs.answer({"id": frames[-1]["id"], "value": each})

    async with trio.open_nursery() as nursery:
        frames.more = trio.Event()
        nursery.start_soon(answer)
        outcome.append(await runner.gates.tool_call(name, "call-7", arguments, bind=bind))
        nursery.cancel_scope.cancel()
    return outcome[0]


async def test_never_has_no_gate(rig: "Rig", gate: Open) -> None:
    async with gate("never") as runner:
        assert not runner.has_handlers("tool_call")
        assert None is await runner.gates.tool_call("bash", "1", {"command": "true"})


@pytest.mark.parametrize("name", ["read", "grep", "find", "ls"])
@pytest.mark.parametrize("mode", ["ask", "read-only"])
async def test_what_changes_nothing_is_run_unasked(rig: "Rig", gate: Open, mode: ApprovalMode, name: str) -> None:
    async with gate(mode) as runner:
        assert None is await runner.gates.tool_call(name, "1", {})
    assert [] == rig.host.frames


@pytest.mark.parametrize("name", ["bash", "edit", "write", "of_an_extension", "not_there"])
async def test_read_only_blocks_everything_else_and_says_why(rig: "Rig", gate: Open, name: str) -> None:
    rig.host.tools.append(tool("of_an_extension"))
    async with gate("read-only") as runner:
        block = await runner.gates.tool_call(name, "1", {})

    assert block is not None
    assert (block.reason or "").startswith(f"{name} was not run: this session is read-only")
    assert not block.terminate


async def test_a_tool_that_says_it_changes_nothing_is_run(rig: "Rig", gate: Open) -> None:
    rig.host.tools.append(tool("look", is_read_only=True))
    async with gate("read-only") as runner:
        assert None is await runner.gates.tool_call("look", "1", {})


async def test_a_tool_that_only_bears_the_name_of_a_harmless_one_is_not(rig: "Rig", gate: Open) -> None:
    rig.host.tools[0] = tool("read")
    async with gate("read-only") as runner:
        assert isinstance(await runner.gates.tool_call("read", "1", {}), Block)


async def test_the_question_names_the_call_and_shows_what_it_would_do(rig: "Rig", gate: Open) -> None:
    async with gate("ask") as runner:
        assert None is await asked(runner, rig, "bash", "Yes", command="rm -rf build")
        assert None is await asked(runner, rig, "write", "Yes", content="new\x1b[2J", path="a.txt")

    first, second = rig.host.frames
    title = f"Let the model use bash?\n\n(in {rig.host.session.cwd})\ncommand: rm -rf build"
    assert ("select", title) == (first["method"], first["title"])
    assert (["Yes", "Yes for this session", "No"], "call-7") == (first["options"], first["toolCallId"])
    assert "timeout" not in first
    path = f"{rig.host.session.cwd}/a.txt"
    assert f"Let the model use write?\n\npath: {path}\ncontent: new\\u{{1b}}[2J" == second["title"]


@pytest.mark.parametrize("answer", ["No", "yes", None, 7, ["Yes"]])
async def test_nothing_but_yes_is_yes(rig: "Rig", gate: Open, answer: object) -> None:
    async with gate("ask") as runner:
        block = await asked(runner, rig, "bash", answer, command="true")

    assert isinstance(block, Block)
    assert "the user has not approved this call" in str(block.reason)


async def test_yes_is_for_one_call(rig: "Rig", gate: Open) -> None:
    async with gate("ask") as runner:
        assert None is await asked(runner, rig, "bash", "Yes", command="one")
        assert isinstance(await asked(runner, rig, "bash", "No", command="two"), Block)


async def test_yes_for_this_session_is_for_one_tool(rig: "Rig", gate: Open) -> None:
    async with gate("ask") as runner:
        assert None is await asked(runner, rig, "bash", "Yes for this session", command="one")
        assert None is await asked(runner, rig, "bash", "nobody is asked", command="two")
        assert isinstance(await asked(runner, rig, "write", "No", path="a", content=""), Block)
    assert 2 == len(rig.host.frames)


@pytest.mark.parametrize("mode", ["print", "json"])
async def test_with_nobody_to_ask_it_blocks(rig: "Rig", gate: Open, mode: str) -> None:
    async with gate("ask") as runner:
        rig.host.mode = "print" if mode == "print" else "json"
        block = await runner.gates.tool_call("bash", "1", {"command": "true"})

    assert "nobody can be asked" in str(block)
    assert [] == rig.host.frames


async def test_silence_blocks(rig: "Rig", gate: Open, autojump_clock: trio.testing.MockClock) -> None:
    async with gate("ask", 30) as runner:
        assert isinstance(await runner.gates.tool_call("bash", "1", {"command": "true"}), Block)
    assert 30_000 == rig.host.frames[0]["timeout"]


@pytest.mark.parametrize("ending", ["abort", "end of input", "replaced"])
async def test_an_open_question_that_is_ended_blocks(rig: "Rig", gate: Open, ending: str) -> None:
    outcome: list[Block | None] = []

    async with gate("ask") as runner, trio.open_nursery() as nursery:

        async def call() -> None:
            outcome.append(await runner.gates.tool_call("bash", "1", {"command": "true"}))

        nursery.start_soon(call)
        assert isinstance(rig.host.frames, Frames)
        await rig.host.frames.more.wait()
        if ending == "abort":
            runner.abort()
        elif ending == "end of input":
            runner.dialogs.close_all(for_good="the client is gone")
        else:
            await runner.shutdown("new")
    assert isinstance(outcome[0], Block)


async def test_a_host_that_can_not_say_what_a_tool_is_blocks(rig: "Rig", gate: Open) -> None:
    async with gate("ask") as runner:
        rig.host.tools = [None]  # type: ignore[list-item]
        assert isinstance(await runner.gates.tool_call("read", "1", {}), Block)
    assert ["tool_call"] == [event for _, event, _ in rig.host.told]


def test_a_mode_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="there is no tool approval 'always'; there are never, ask, read-only"):
        tool_approval("always")  # type: ignore[arg-type]
    assert ("never", "ask", "read-only") == APPROVAL_MODES


# What is shown is all of it, and stands for one call only.

ESCAPE = re.compile(r"\\u\{([0-9a-f]+)(?:\*([0-9]+))?\}")


def meant(shown: str) -> str:
    """Read what is shown, as the documentation says."""
    return ESCAPE.sub(lambda escape: chr(int(escape[1], 16)) * int(escape[2] or 1), shown)


def shown_arguments(title: str) -> dict[str, str]:
    """Read the arguments that are texts out of a question."""
    lines = title.split("\n")[2:]
    arguments: dict[str, str] = {}
    while lines:
        line = lines.pop(0)
        if line.startswith("("):
            continue
        if block := re.fullmatch(r"(\S+) \(([0-9]+) lines\):", line):
            count = int(block[2])
            assert all(each == "|" or each.startswith("| ") for each in lines[:count])
            arguments[block[1]] = meant("\n".join(each[2:] for each in lines[:count]))
            del lines[:count]
        else:
            name, _, text = line.partition(": ")
            arguments[name] = meant(text)
    return arguments


async def title_of(tool_name: str, cwd: Path, places: Places = Places(), **arguments: object) -> str:  # noqa: B008
    return question(await examine(tool_name, arguments, str(cwd), lambda: places, is_builtin=True))


ANY_NAME = st.one_of(
    st.text(st.sampled_from("a/.\\u{} \n\r\t\u3164\u115f\uffa0\u034f\u202e\u2066\u200b\u00a0\u2028\u0301\u05d0%2e~@")),
    st.text(st.characters(exclude_categories=())),
).filter(lambda name: name.strip("/.") != "")


@given(ANY_NAME, ANY_NAME)
def test_the_path_that_is_shown_is_the_file_that_is_written(first: str, second: str) -> None:
    """Whatever stands in a name: what is shown decodes to the real path, and two files never show the same."""
    shown: dict[str, str] = {}
    for name in (first, second):
        with suppress(ToolError):
            real = os.path.realpath(resolve_path(name, "/nowhere/project"))
            title = trio.run(partial(title_of, "write", Path("/nowhere/project"), path=name, content="x"))
            assert shown_arguments(title) == {"path": real, "content": "x"}
            assert shown.setdefault(title.split("\n")[2], real) == real
    assert len(set(shown)) == len(set(shown.values()))


@given(st.lists(st.text(st.sampled_from('a|: (2 lines)\n\n\\u{}\u3164\u202e ;"=command')), min_size=2, max_size=2))
def test_two_commands_never_show_the_same(commands: list[str]) -> None:
    titles = [trio.run(partial(title_of, "bash", Path("/"), command=each)) for each in commands]

    assert [{"command": each} for each in commands] == [shown_arguments(title) for title in titles]
    assert (titles[0] == titles[1]) is (commands[0] == commands[1])


@pytest.mark.parametrize(
    "hidden", ["\u3164", "\u115f", "\uffa0", "\u034f", "\u200b", "\u202e", "\u2800", "\ufe0f", "\r"]
)
async def test_invisible_letters_are_escaped_in_paths_and_commands(hidden: str, tmp_path: Path) -> None:
    escape = f"\\u{{{ord(hidden):x}}}"

    assert f"/notes{escape}.txt" in await title_of("write", tmp_path, path=f"notes{hidden}.txt", content="")
    assert f"command: ls{escape};x" in await title_of("bash", tmp_path, command=f"ls{hidden};x")


async def test_a_path_can_not_put_lines_into_the_question(tmp_path: Path) -> None:
    name = "README.md\n\nThis file is harmless.\npath: /elsewhere/../../.bashrc"
    title = await title_of("write", tmp_path, path=name, content="x\npath: README.md")
    real = os.path.realpath(resolve_path(name, str(tmp_path)))

    assert shown_arguments(title) == {"path": real, "content": "x\npath: README.md"}
    assert [line[:6] for line in title.split("\n")[2:]] == ["path: ", "(named", "conten", "| x", "| path"]


async def test_the_file_behind_a_link_is_shown(tmp_path: Path) -> None:
    (tmp_path / "repository/docs").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    (tmp_path / "repository/docs/CHANGELOG.md").symlink_to(tmp_path / "home/.bashrc")
    places = Places(home=str(tmp_path / "home"))

    title = await title_of("edit", tmp_path / "repository", places, path="docs/CHANGELOG.md", edits=[])
    assert title.split("\n")[2:] == [
        f"path: {tmp_path}/home/.bashrc",
        "(named docs/CHANGELOG.md)",
        "(always asked about: it is read by a shell, a program or the system when it starts)",
        "edits = []",
    ]


async def test_the_file_behind_an_address_is_shown(tmp_path: Path) -> None:
    title = await title_of("write", tmp_path, path=f"file://{tmp_path}/docs/%2e%2e/%70lan%0a.md", content="x")

    assert shown_arguments(title)["path"] == f"{tmp_path}/plan\n.md"
    assert f"path: {tmp_path}/plan\\u{{a}}.md" in title


async def test_every_part_of_an_edit_is_shown(tmp_path: Path) -> None:
    edits = [{"oldText": "a\nb", "newText": ""}, {"oldText": "| c", "newText": "\u200b"}]
    title = await title_of("edit", tmp_path, path="f", edits=edits)

    assert shown_arguments(title) == {
        "path": f"{tmp_path}/f",
        "edits[0].oldText": "a\nb",
        "edits[0].newText": "",
        "edits[1].oldText": "| c",
        "edits[1].newText": "\u200b",
    }


async def test_numbers_and_odd_names_of_arguments_are_not_taken_for_texts() -> None:
    arguments: dict[str, object] = {"n": 5, "s": "5", "x = 1": "y", "(named x)": "z", "path": "a"}
    call = await examine("of_an_extension", arguments, "/", Places, is_builtin=False)

    assert question(call).split("\n")[2:] == ["n = 5", "s: 5", '"x = 1": y', '"(named x)": z', "path: a"]


@pytest.mark.parametrize("command", ["x" * 10_001, "true\n" * 200 + "rm x", "\u200b\n" * 1500, "ls" + " " * 10_000])
async def test_a_command_that_can_not_be_shown_whole_is_refused(rig: "Rig", gate: Open, command: str) -> None:
    async with gate("ask") as runner:
        block = await asked(runner, rig, "bash", "Yes", command=command)

    assert "the call can't be shown whole: its command takes" in str(block)
    assert [] == rig.host.frames


async def test_a_content_that_can_not_be_shown_whole_is_refused(rig: "Rig", gate: Open) -> None:
    async with gate("ask") as runner:
        assert None is await asked(runner, rig, "write", "Yes", path="a", content="x" * 60_000)
        block = await asked(runner, rig, "write", "Yes", path="a", content="x" * 64_000)

        many = await asked(runner, rig, "write", "Yes", path="a", content="", numbers=[1] * 64_000)

    assert ["more than 64000 characters to show" in str(each) for each in (block, many)] == [True, True]
    assert len(str(rig.host.frames[0]["title"])) > 60_000


# What is executed is what was shown.


async def test_a_call_is_bound_to_the_file_that_was_shown(rig: "Rig", gate: Open, tmp_path: Path) -> None:
    (tmp_path / "project/link").symlink_to("real")
    bound: list[str] = []
    async with gate("ask") as runner:
        await asked(runner, rig, "write", "Yes for this session", bind=bound.append, path="link", content="")
        await asked(runner, rig, "write", bind=bound.append, path="other", content="")

    assert bound == [f"{tmp_path}/project/real", f"{tmp_path}/project/other"]


async def test_a_link_that_is_changed_while_the_user_decides_is_asked_about_again(
    rig: "Rig", gate: Open, tmp_path: Path
) -> None:
    link = tmp_path / "project/link"
    link.symlink_to("real")

    def turn() -> None:
        link.unlink()
        link.symlink_to("other")

    bound: list[str] = []
    async with gate("ask") as runner:
        outcome = await asked(
            runner, rig, "write", "Yes", "Yes", on_question=turn, bind=bound.append, path="link", content=""
        )

    assert outcome is None
    assert [f"path: {tmp_path}/project/{name}" for name in ("real", "other")] == [
        str(frame["title"]).split("\n")[2] for frame in rig.host.frames
    ]
    assert bound == [f"{tmp_path}/project/other"]


async def test_a_call_that_another_gate_has_bound_to_another_file_is_refused(
    rig: "Rig", gate: Open, tmp_path: Path
) -> None:
    def bind(_: Context, event: WriteCall) -> None:
        event.bound_path = str(tmp_path / "project/other")

    rig.on("tool_call", bind)
    async with gate("ask") as runner:
        assert isinstance(await asked(runner, rig, "write", "Yes", path="file", content=""), Block)
        rig.host.tools[3] = tool("write")
        bound: list[str] = []
        assert None is await asked(runner, rig, "write", "Yes", bind=bound.append, path="other", content="")
        assert bound == [str(tmp_path / "project/other")], "the tool is not known, and what another gate wants stays"


async def test_arguments_that_another_handler_changes_while_the_user_decides_are_asked_about_again(
    rig: "Rig", gate: Open
) -> None:
    kept: list[BashCall] = []

    def keep(_: Context, event: BashCall) -> None:
        kept.append(event)

    def change() -> None:
        kept[0].input["command"] = "rm -rf /"

    rig.on("tool_call", keep)
    async with gate("ask") as runner:
        assert isinstance(await asked(runner, rig, "bash", "Yes", "No", on_question=change, command="ls"), Block)

    assert ["ls", "rm -rf /"] == [str(frame["title"]).partition("command: ")[2] for frame in rig.host.frames]


async def test_a_call_that_is_always_another_one_is_refused(rig: "Rig", gate: Open, tmp_path: Path) -> None:
    link = tmp_path / "project/link"
    link.symlink_to("0")

    class Turning(Frames):
        def append(self, frame: Mapping[str, object]) -> None:
            link.unlink()
            link.symlink_to(str(len(self) + 1))
            super().append(frame)

    rig.host.frames = Turning()
    async with gate("ask") as runner:
        block = await asked(runner, rig, "write", "Yes", "Yes", "Yes", "Yes", path="link", content="")

    assert "each time it was approved, it was another call by then" in str(block)
    assert 3 == len(rig.host.frames)


# Yes for this session is no way to more.

PROTECTED = [
    ".pi/settings.json",
    ".pi/extensions/x.py",
    ".git/hooks/pre-commit",
    ".GIT/config",
    "sub/.git",
    ".agents/skills/x/SKILL.md",
    ".husky/pre-commit",
    ".vscode/tasks.json",
    ".envrc",
    ".env",
    "gate.py",
    "../agent/trust.json",
    "../agent/extensions/x.py",
    "../home/.bashrc",
    "../home/.config/fish/config.fish",
    "../home/.local/bin/ls",
    "../home/.ssh/authorized_keys",
    "../home/notes.txt",
    "/etc/cron.d/x",
    "/proc/self/environ",
    "link-to-git/config",
    "hard",
    f"{sys.prefix}/lib/sitecustomize.py",
]


@pytest.mark.parametrize("name", ["write", "edit"])
@pytest.mark.parametrize("path", PROTECTED)
async def test_yes_for_this_session_does_not_cover_what_runs_or_grants_rights_later(
    rig: "Rig", gate: Open, tmp_path: Path, name: str, path: str
) -> None:
    (tmp_path / "project/.git").mkdir()
    (tmp_path / "project/link-to-git").symlink_to(".git")
    (tmp_path / "project/hard").touch()
    os.link(tmp_path / "project/hard", tmp_path / "elsewhere")
    content: dict[str, Any] = {"content": ""} if name == "write" else {"edits": []}
    async with gate("ask") as runner:
        assert None is await asked(runner, rig, name, "Yes for this session", path="notes.txt", **content)
        assert isinstance(await asked(runner, rig, name, "Yes for this session", path=path, **content), Block)
        assert None is await asked(runner, rig, name, "Yes", path=path, **content)
        assert isinstance(await asked(runner, rig, name, "No", path=path, **content), Block), "Yes is for one call"
        assert None is await asked(runner, rig, name, path="notes.txt", **content)

    assert [["Yes", "Yes for this session", "No"], *[["Yes", "No"]] * 3] == [
        each["options"] for each in rig.host.frames
    ]
    assert "(always asked about: it " in str(rig.host.frames[-1]["title"])


@pytest.mark.parametrize("name", ["write", "edit"])
@pytest.mark.parametrize("path", PROTECTED)
async def test_read_only_refuses_protected_files_like_all_others(rig: "Rig", gate: Open, name: str, path: str) -> None:
    async with gate("read-only") as runner:
        assert isinstance(await runner.gates.tool_call(name, "1", {"path": path}), Block)
    assert [] == rig.host.frames


async def test_where_a_path_of_an_extensions_tool_leads_is_shown(rig: "Rig", gate: Open, tmp_path: Path) -> None:
    rig.host.tools.append(tool("save"))
    (tmp_path / "project/notes").symlink_to("/tmp/else\u3164where")
    async with gate("ask") as runner:
        assert None is await asked(runner, rig, "save", "Yes", to="notes/a", text="notes")

    assert str(rig.host.frames[0]["title"]).split("\n")[2:] == [
        "(notes/a leads to /tmp/else\\u{3164}where/a)",
        "(notes leads to /tmp/else\\u{3164}where)",
        "to: notes/a",
        "text: notes",
    ]


async def test_a_command_is_bound_to_the_folder_that_is_shown(rig: "Rig", gate: Open, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("project")
    rig.host.session.cwd = str(tmp_path / "link")
    bound: list[str] = []
    async with gate("ask") as runner:
        await asked(runner, rig, "bash", "Yes", bind=bound.append, command="ls")

    assert f"(in {tmp_path}/project)" in str(rig.host.frames[0]["title"])
    assert bound == [str(tmp_path / "project")]


async def test_a_tool_of_an_extension_is_always_asked_about_with_a_protected_path(rig: "Rig", gate: Open) -> None:
    rig.host.tools.append(tool("save"))
    async with gate("ask") as runner:
        assert None is await asked(runner, rig, "save", "Yes for this session", files=["a", "b"])
        assert None is await asked(runner, rig, "save", files=["c"])
        assert isinstance(await asked(runner, rig, "save", "No", files=["c", {"to": ".git/config"}]), Block)


async def test_a_module_that_was_loaded_is_always_asked_about() -> None:
    title = await title_of("write", Path(__file__).parent, path=Path(__file__).name, content="")

    assert "(always asked about: it is part of the program that runs this session)" in title


async def test_a_path_that_leads_in_a_circle_is_refused(rig: "Rig", gate: Open, tmp_path: Path) -> None:
    (tmp_path / "project/loop").symlink_to("loop")
    async with gate("ask") as runner:
        assert "write was not run" in str(await asked(runner, rig, "write", "Yes", path="loop/x", content=""))
    assert [] == rig.host.frames
