"""The conversation as data: parts of Markdown, heights, items of events, lines rendered from them, keys, themes."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.source_tree import PYTHONPATH

from pinnace_fuzz.harness.short_folders import make_short_folder
from pinnace_tui.clipboard import as_files
from pinnace_tui.completion import CompletionContext, Suggestion, files_of, place_in, suggest_commands, suggest_files
from pinnace_tui.content.heights import Heights
from pinnace_tui.content.look import LOOKS
from pinnace_tui.content.markdown_blocks import LONGEST_PART_CHARS, PART_CHARS, divide
from pinnace_tui.content.rendering import Renderer, changes_of, whole
from pinnace_tui.content.themes import named_look, read_looks
from pinnace_tui.content.transcript import (
    AnswerItem,
    NoticeItem,
    ShellItem,
    SummaryItem,
    ThinkingItem,
    ToolItem,
    Transcript,
    TranscriptItem,
    UserItem,
)
from pinnace_tui.content.values import Record
from pinnace_tui.footer import FooterState, footer
from pinnace_tui.input.keys import Keys, Shortcut, in_words, read_keys
from pinnace_tui.main import theme_and_flags


def rendered(item: TranscriptItem, width: int = 60, *, opens: bool = False) -> list[str]:
    renderer = Renderer(width, LOOKS[0], shows_thinking=opens, shows_tools=opens)
    return [strip.text.rstrip() for strip in renderer.render(item)]


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=60))
def test_heights_find_the_row_of_each_line(changes: list[tuple[int, int]]) -> None:
    heights, plain = Heights(), list[int]()
    for row, height in changes:
        if row < len(plain) and height % 2:
            heights.set(row, height)
            plain[row] = height
        else:
            heights.insert(min(row, len(plain)), height)
            plain.insert(min(row, len(plain)), height)
    assert heights.total == sum(plain)
    assert [heights.top(row) for row in range(len(plain))] == [sum(plain[:row]) for row in range(len(plain))]
    lines = [(row, line) for row, height in enumerate(plain) for line in range(height)]
    assert [heights.find(line) for line in range(heights.total)] == lines
    assert heights.find(heights.total)[0] == len(plain)


def test_a_short_text_is_one_part() -> None:
    assert divide("# One\n\ntwo\n\n- three\n") == ["# One\n\ntwo\n\n- three\n"]


def test_a_long_text_is_divided_between_blocks() -> None:
    paragraph = "word " * 100 + "\n\n"
    *parts, rest = divide(paragraph * 40)
    assert "".join(parts) + rest == paragraph * 40
    assert all(part.endswith("\n\n") for part in parts)
    assert max(map(len, parts)) < PART_CHARS + len(paragraph)


def test_program_text_is_divided_at_lines_and_stays_program_text() -> None:
    *parts, rest = divide("```python\n" + "x = 1\n" * 5000)
    assert len(parts) >= 2
    assert all(part.startswith("```python\n") and part.endswith("\n```\n") for part in parts)
    assert rest.startswith("```python\n")
    assert sum(part.count("x = 1") for part in [*parts, rest]) == 5000


def test_the_parts_of_a_single_line_are_bounded() -> None:
    assert max(map(len, divide("x" * 10 * LONGEST_PART_CHARS))) <= 2 * LONGEST_PART_CHARS


def answer(*steps: Record, entry: str = "a1") -> list[Record]:
    start = {"type": "message_start", "entryId": entry, "message": {"role": "assistant", "content": []}}
    updates = [{"type": "message_update", "entryId": entry, "assistantMessageEvent": step} for step in steps]
    return [start, *updates]


def test_deltas_grow_thoughts_text_and_a_call() -> None:
    transcript = Transcript()
    events: list[Record] = [
        *answer(
            {"type": "thinking_delta", "contentIndex": 0, "delta": "let me "},
            {"type": "thinking_delta", "contentIndex": 0, "delta": "see"},
            {"type": "text_delta", "contentIndex": 1, "delta": "I "},
            {"type": "text_delta", "contentIndex": 1, "delta": "look."},
            {"type": "toolcall_start", "contentIndex": 2, "id": "c1", "toolName": "bash"},
            {"type": "toolcall_delta", "contentIndex": 2, "delta": '{"command": "l'},
        ),
        {"type": "tool_execution_start", "toolCallId": "c1", "toolName": "bash", "args": {"command": "ls"}},
        {"type": "tool_execution_update", "toolCallId": "c1", "partialResult": {"content": [text_block("a\n")]}},
        {"type": "tool_execution_end", "toolCallId": "c1", "result": {"content": [text_block("a\nb\n")]}},
    ]
    for event in events:
        transcript.apply(event)
    thinking, text, call = transcript.items
    assert isinstance(thinking, ThinkingItem)
    assert isinstance(text, AnswerItem)
    assert isinstance(call, ToolItem)
    assert (thinking.text, text.text, call.output, call.state) == ("let me see", "I look.", "a\nb\n", "done")


def text_block(text: str) -> Record:
    return {"type": "text", "text": text}


def test_events_of_loaded_entries_change_nothing() -> None:
    """Loading and events may overlap."""
    transcript = Transcript()
    user = {"role": "user", "content": [text_block("hi")]}
    entries: list[Record] = [
        {"type": "message", "id": "u1", "parentId": None, "message": user},
        {"type": "message", "id": "u2", "parentId": None, "message": user},
        {
            "type": "message",
            "id": "a1",
            "parentId": "u1",
            "message": {"role": "assistant", "content": [text_block("x")]},
        },
    ]
    transcript.load_entries(entries, "a1")
    events: list[Record] = [
        {"type": "message_start", "entryId": "u1", "message": user},
        *answer({"type": "text_delta", "contentIndex": 0, "delta": "x"}),
        {"type": "message_end", "entryId": "a1", "message": {"role": "assistant", "content": [text_block("x")]}},
    ]
    for event in events:
        transcript.apply(event)
    assert [type(item) for item in transcript.items] == [UserItem, AnswerItem]


def test_an_answer_whose_beginning_was_missed_is_known() -> None:
    transcript = Transcript()
    transcript.apply(answer({"type": "text_delta", "contentIndex": 0, "delta": "rest"})[1])
    assert transcript.has_gap


def test_a_long_answer_becomes_parts_while_it_grows() -> None:
    transcript = Transcript()
    delta = {"type": "text_delta", "contentIndex": 0, "delta": "some words\n\n"}
    for event in answer(*[delta] * 2000):
        transcript.apply(event)
    parts = [item.text for item in transcript.items if isinstance(item, AnswerItem)]
    assert "".join(parts) == "some words\n\n" * 2000
    assert max(map(len, parts)) < 2 * PART_CHARS


def test_unknown_events_and_wrong_values_change_nothing() -> None:
    transcript = Transcript()
    wrong: list[Record] = [{"type": "new"}, {}, {"type": "message_start", "message": 7}, {"type": "message_end"}]
    for event in wrong:
        transcript.apply(event)
    assert transcript.items == []


def test_a_diff_is_shown_line_by_line() -> None:
    call = ToolItem("c1", "edit", {"path": "a.txt", "edits": [{"oldText": "one\ntwo", "newText": "one\n2"}]})
    assert rendered(call) == [" ○ edit  a.txt", "  one", " -two", " +2", ""]


def test_a_sub_agent_has_a_line_of_its_own() -> None:
    call = ToolItem("c1", "subagent", {"task": "count the sails", "model": "m"}, state="running")
    call.details = {"agent": {"agentId": "a", "state": "running", "turns": 1, "activity": "bash ls\x1b[2J"}}
    assert rendered(call)[:2] == [" ◐ subagent  count the sails", " ↳ running · 1 turn · bash ls\ufffd[2J"]
    call.details, call.state = {"agent": {"agentId": "a", "state": "completed", "turns": 2}}, "done"
    assert rendered(call)[:2] == [" ● subagent  count the sails", " ↳ completed · 2 turns"]


def test_folded_output_shows_its_end_and_how_much_is_left_out() -> None:
    shell = ShellItem("seq 20")
    shell.output, shell.ending = "\n".join(map(str, range(1, 21))), "exit code 3"
    assert rendered(shell) == [" $ seq 20", " … 14 more lines", *[f" {n}" for n in range(15, 21)], " exit code 3", ""]
    assert len(rendered(shell, opens=True)) == 23


@pytest.mark.parametrize(
    "item",
    [
        UserItem("a\x1b[2Jb\x07\x9bc\u202ed"),
        AnswerItem("a\x1b[2Jb\x07\x9bc\u202ed"),
        ThinkingItem("a\x1b[2Jb\x07\x9bc\u202ed"),
        ToolItem("c", "ba\x1bsh", {"command": "a\x1b]0;title\x07b"}),
        ToolItem("c", "x", {"a\x1b]0;title\x07b": 1, "b\ud800": 2}),
        AnswerItem("a&#x202e;b"),
        UserItem("a\ud800\u2028b"),
        NoticeItem("a\x1b[2Jb\x07\x9bc\u202ed"),
        SummaryItem("t", "a\x1b[2Jb\x07\x9bc\u202ed"),
    ],
)
def test_no_text_reaches_the_terminal_as_a_command(item: TranscriptItem) -> None:
    shown = "\n".join(rendered(item, opens=True))
    assert not {"\x1b", "\x07", "\x9b", "\u202e", "\ud800", "\u2028"} & set(shown)


def test_a_terminal_that_is_called_dumb_has_its_own_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert max(map(len, rendered(AnswerItem("word " * 100), width=40))) <= 40


def test_wide_characters_keep_within_the_width() -> None:
    renderer = Renderer(20, LOOKS[0], shows_thinking=False, shows_tools=False)
    assert all(strip.cell_length <= 20 for strip in renderer.render(AnswerItem("日本語のテキスト " * 9)))


@pytest.mark.parametrize("hiding", ["\x1b]0;{}\x07", "\x1b]0;{}", "\x1b]8;;{}\x1b\\", "\x1b[{}m", "\x1bP{}\x1b\\"])
def test_a_command_is_shown_whole(hiding: str) -> None:
    """What a terminal takes for a sequence is text to a shell."""
    command = "ls " + hiding.format("; rm -rf x; ") + " y"
    renderer = Renderer(100, LOOKS[0], shows_thinking=False, shows_tools=True)
    for item in (ToolItem("c", "bash", {"command": command}), ShellItem(command)):
        shown = "".join(strip.text for strip in renderer.render(item))
        assert "; rm -rf x; " in shown
        assert "\x1b" not in shown
    assert "; rm -rf x; " in whole(command)


def test_only_edits_and_writes_have_a_diff() -> None:
    assert changes_of("write", {"content": "a\nb\n"}) == ["+a", "+b"]
    assert changes_of("bash", {"command": "ls"}) == []


def test_completions() -> None:
    assert place_in("see @sr", is_first=True) == CompletionContext("file", 4, "sr")
    assert place_in("a@b", is_first=True) is None
    assert place_in("/mo", is_first=True) == CompletionContext("command", 0, "mo")
    assert place_in("/mo", is_first=False) is None
    assert suggest_commands("mo", [("demo", ""), ("model", "m")]) == [Suggestion("/model ", "m"), Suggestion("/demo ")]
    found = suggest_files("main", ["docs/remain.md", "src/main.py", "main/x.py", "m_a_i_n"])
    assert [each.text for each in found] == ["@main/x.py ", "@src/main.py ", "@docs/remain.md ", "@m_a_i_n "]


def test_files_without_git_are_those_that_are_not_hidden(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / ".hidden").mkdir()
    (tmp_path / "a" / "x.py").touch()
    (tmp_path / ".hidden" / "y.py").touch()
    assert files_of(str(tmp_path)) == ["a/x.py"]


def test_files_of_a_repository_are_those_that_git_does_not_ignore(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for each in (".github/x.yml", "a/x.py", "a/x.pyc", "build/y", "sub/deep/z"):
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).touch()
    (tmp_path / ".gitignore").write_text("*.pyc\n/build\n")
    git = ["git", "-C", str(tmp_path), "ls-files", "-z", "--others", "--exclude-standard"]
    listed = subprocess.run(git, capture_output=True, check=True).stdout.decode().split("\0")

    assert sorted(filter(None, listed)) == sorted(files_of(str(tmp_path)))
    assert ["z"] == files_of(str(tmp_path / "sub/deep"))


def test_listing_files_starts_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A repository may be one that commands of the agent have made, and git runs what it names, such as a fetch."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / "x.py").touch()
    started: list[object] = []
    sys.addaudithook(lambda event, arguments: started.append(arguments) if event in STARTING else None)
    monkeypatch.setenv("PATH", "/nonexistent")

    assert files_of(str(tmp_path)) == ["x.py"]
    assert [] == started


STARTING = {"subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.fork"}


@pytest.fixture
def plain() -> Iterator[Path]:
    """A folder whose path needs no quotes."""
    folder = make_short_folder("drag-")
    yield folder
    shutil.rmtree(folder)


def test_files_that_are_dragged_into_the_terminal(plain: Path) -> None:
    folder, other = plain / "project", plain / "other.txt"
    folder.mkdir()
    for path in (other, folder / "a b.txt", folder / "c.txt"):
        path.touch()
    assert as_files(f"'{folder}/a b.txt' {folder}/c.txt ", str(folder)) == '@"a b.txt" @c.txt '
    assert as_files(f"{folder}/a\\ b.txt", str(folder)) == '@"a b.txt" '
    assert as_files(f"file://{folder}/a%20b.txt", str(folder)) == '@"a b.txt" '
    assert as_files(str(other), str(folder)) == f"@{other} "
    for text in ("/no/such/file", "c.txt", "/ it's", f"{other} and more"):
        assert as_files(text, str(folder)) is None


def test_the_theme_of_an_attached_terminal_is_not_the_agents() -> None:
    flags = ["--provider", "offline", "--use-theme", "light", "--use-theme=dark", "-n", "x"]
    assert theme_and_flags(flags) == ("dark", ["--provider", "offline", "-n", "x"])


def test_keys_of_the_originals_file_replace_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "keybindings.json"
    path.write_text(
        json.dumps(
            {"$schema": {}, "app.tools.expand": ["alt+shift+T", "ctrl+]"], "app.exit": [], "tui.editor.undo": "ctrl+z"}
        )
    )
    keys, problems = read_keys(path)
    assert [] == problems
    assert keys.action("shift+alt+t") == "app.tools.expand"
    assert keys.action("ctrl+right_square_bracket") == "app.tools.expand"
    assert keys.action("ctrl+o") is None
    assert keys.action("ctrl+d") is None
    assert Keys().action("pageup") == "tui.altScreen.pageUp"


def test_a_key_of_the_user_is_no_more_the_default_one_of_another_action(tmp_path: Path) -> None:
    path = tmp_path / "keybindings.json"
    path.write_text('{"tui.input.newLine": "ctrl+o", "app.model.select": ["ctrl+l", "f2"], "app.session.tree": "f2"}')
    keys, problems = read_keys(path)
    assert keys.action("ctrl+o") == "tui.input.newLine"
    assert dict(keys.rows())["app.model.select"] == "Ctrl+L"
    assert problems == [f"{path}: f2 is given to app.model.select and to app.session.tree, which has it now"]


@pytest.mark.parametrize("content", ["[]", "{", ""])
def test_a_file_of_keys_that_is_no_object_is_reported_and_the_defaults_are_used(tmp_path: Path, content: str) -> None:
    path = tmp_path / "keybindings.json"
    path.write_text(content)
    keys, problems = read_keys(path)
    assert [True] == [str(path) in problem for problem in problems]
    assert keys.action("ctrl+d") == "app.exit"


@pytest.mark.parametrize(
    ("action", "given", "problem", "keys_left"),
    [
        ("app.exit", 1, "app.exit: expected a key or a list of keys", "ctrl+d"),
        ("app.exit", ["f4", 1], "app.exit: expected a key or a list of keys", "ctrl+d"),
        ("app.exit", "ctlr+q", "app.exit: expected a key such as ctrl+o, alt+enter or f2, not 'ctlr+q'", "ctrl+d"),
        ("app.exit", ["f4", ""], "app.exit: expected a key such as", "f4"),
        ("app.exti", "f4", "app.exti: there is no such action; did you mean app.exit?", "ctrl+d"),
        ("x.y", "f4", "x.y: there is no such action", "ctrl+d"),
    ],
)
def test_a_wrong_key_costs_itself_alone(
    tmp_path: Path, action: str, given: object, problem: str, keys_left: str
) -> None:
    path = tmp_path / "keybindings.json"
    path.write_text(json.dumps({"app.tools.expand": "f9", action: given, "app.suspend": "f8"}))
    keys, problems = read_keys(path)
    assert [True] == [each.startswith(f"{path}: {problem}") for each in problems]
    assert ("app.tools.expand", "app.suspend") == (keys.action("f9"), keys.action("f8"))
    assert (in_words(keys_left), "app.exit") == (dict(keys.rows())["app.exit"], keys.action(keys_left))


def test_extensions_get_the_keys_that_are_not_reserved(tmp_path: Path) -> None:
    """As in pi: reserved keys stay, others change hands with a warning, and of several extensions the last has one."""
    path = tmp_path / "keybindings.json"
    path.write_text('{"app.tools.expand": "f9"}')
    keys, _ = read_keys(path)
    wanted = ("ctrl+alt+p", "ctrl+c", "f9", "escape", "ctrl+k", "f3", "no key", "alt+ctrl+p", "ctrl+o")
    problems = keys.bind([Shortcut(key, "", f"/{number}.ts") for number, key in enumerate(wanted)])
    assert problems == [
        "/1.ts: the shortcut ctrl+c has no effect: it is the key of app.clear",
        "/2.ts: the shortcut f9 has no effect: it is the key of app.tools.expand",
        "/3.ts: the shortcut escape has no effect: it is the key of app.interrupt",
        "/4.ts: the shortcut ctrl+k has no effect: it is the key of tui.editor.deleteToLineEnd",
        "/5.ts: the shortcut f3 takes the key of tui.altScreen.search",
        "/6.ts: the shortcut no key has no effect: expected a key such as ctrl+shift+p, alt+x or f5",
        "/7.ts: the shortcut alt+ctrl+p takes the key of /0.ts",
    ]
    held = {key: found.path for key in wanted if (found := keys.shortcut(key)) is not None}
    assert held == {"ctrl+alt+p": "/7.ts", "f3": "/5.ts", "alt+ctrl+p": "/7.ts", "ctrl+o": "/8.ts"}
    assert (None, "app.clear", "app.tools.expand") == (keys.action("f3"), keys.action("ctrl+c"), keys.action("f9"))
    assert "Ctrl+Shift+F" == dict(keys.rows())["tui.altScreen.search"]
    assert [] == keys.bind([])
    assert "tui.altScreen.search" == keys.action("f3")


def test_theme_files_of_the_original_map_or_are_reported(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text(
        json.dumps(
            {
                "name": "mine",
                "appearance": "light",
                "vars": {"red": "#f00", "also": "red"},
                "colors": {
                    "error": "also",
                    "accent": 39,
                    "mdCode": "oklch(62.796% 0.25768 29.234)",
                    "text": "",
                    "x": "?",
                },
            }
        )
    )
    wrong = {"error": "okhsl(1 2% 3%)", "accent": "#00ff00"}
    (tmp_path / "other.json").write_text(json.dumps({"name": "other", "colors": wrong}))
    (tmp_path / "third.json").write_text(json.dumps({"name": "a/b", "colors": wrong}))
    looks, problems = read_looks(sorted(map(str, tmp_path.glob("*.json"))))
    mine = next(look for look in looks if look.name == "mine")
    assert (mine["error"], mine["accent"], mine["mdCode"]) == ("#ff0000", "#00afff", "#ff0000")
    assert mine["text"] == LOOKS[1]["text"]
    assert [look.name for look in looks] == ["dark", "light", "high-contrast", "mine", "other"]
    other = looks[-1]
    assert (other["error"], other["accent"]) == (LOOKS[0]["error"], "#00ff00")
    assert len(problems) == 2
    assert "colors.error: expected" in problems[0]
    assert "name: expected a name without /" in problems[1]


@pytest.mark.parametrize(
    ("colors", "is_dark"),
    [
        ({"text": "#eeeeee"}, True),
        ({"text": "#222222"}, False),
        ({"text": "", "userMessageBg": "#f0f0f0"}, False),
        ({"text": "okhsl(1 2% 3%)", "selectedBg": 16}, True),
        ({"accent": "#222222"}, True),
    ],
)
def test_a_theme_without_an_appearance_is_read_by_its_colours(
    tmp_path: Path, colors: dict[str, object], is_dark: bool
) -> None:
    (tmp_path / "mine.json").write_text(json.dumps({"name": "mine", "colors": colors}))
    looks, _ = read_looks([str(tmp_path / "mine.json")])
    assert looks[-1].is_dark is is_dark


def test_a_pair_of_themes_follows_the_background(tmp_path: Path) -> None:
    settings = tmp_path / "settings.json"
    settings.write_text('{"theme": "light/dark"}')
    assert named_look(settings, {"COLORFGBG": "0;15"}) == "light"
    assert named_look(settings, {}) == "dark"


@pytest.mark.parametrize("width", [100, 40, 12])
def test_the_footer_keeps_within_the_width(width: int) -> None:
    state = {"cwd": "/srv/日本語/project", "model": {"id": "model", "reasoning": True}, "thinkingLevel": "high"}
    stats = {"contextUsage": {"percent": 12.3, "contextWindow": 200000}, "tokens": {"input": 12345, "output": 1}}
    lines = footer(FooterState(state=state, stats=stats, branch="main", statuses={"a": "b" * 200}), width)
    assert max(line.cell_len for line in lines.split("\n")) <= width


def test_an_empty_editor_needs_neither_the_client_nor_markdown() -> None:
    """They take longer to import than the editor to be drawn, which is why they come after it."""
    program = (
        "import sys, pinnace_tui.main, pinnace_tui.app; "
        "print([n for n in ('trio', 'pinnace_rpc', 'markdown_it') if n in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env={**os.environ, "PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "[]"
