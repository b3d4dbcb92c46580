"""Scripts of the offline model: what they may say, and what is said of those that are wrong."""

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pinnace_agent.llm.cost import RequestTokens
from pinnace_agent.llm.offline.script import (
    FOR_EVER,
    Script,
    ScriptedAnswer,
    ScriptedCall,
    ScriptedError,
    ScriptError,
    load_script,
    pieces,
)


def load(folder: Path, text: str | bytes, name: str = "s.yaml") -> Script:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode(errors="surrogatepass"))
    return load_script(path)


def problem(folder: Path, text: str | bytes, name: str = "s.yaml") -> str:
    """Return what is said of a script that is wrong, after the name of the file."""
    with pytest.raises(ScriptError) as caught:
        load(folder, text, name)
    before, _, said = str(caught.value).partition(": ")
    assert before == f"Offline script {folder / name}"
    return said


EVERYTHING = """
delay_ms: 2.5
turns:
  - match: "^hi (there|you)"
    thinking: [one, two]
    text: "Hello there"
    tools:
      - name: bash
        arguments: {command: ls, n: 1, deep: [true, null, {a: 1.5}]}
        id: call_x
      - name: read
    delay_ms: 0
    start_delay_ms: 1000
    stop: length
    usage: {input: 1, output: 2, cache_read: 3, cache_write: 4}
    hang: true
    repeat: 3
  - error: {status: 503, message: busy}
    repeat: forever
  - error: broken off
"""


def test_everything_that_a_script_can_say_is_read(tmp_path: Path) -> None:
    script = load(tmp_path, EVERYTHING)

    first, second, third = script.turns
    assert script.delay_ms == 2.5
    assert first.match is not None
    assert first._replace(match=None) == ScriptedAnswer(
        thinking=("one", "two"),
        text=("Hello ", "there"),
        tools=(
            ScriptedCall("bash", {"command": "ls", "n": 1, "deep": [True, None, {"a": 1.5}]}, "call_x"),
            ScriptedCall("read", {}),
        ),
        delay_ms=0,
        start_delay_ms=1000,
        stop="length",
        usage=RequestTokens(input=1, output=2, cache_read=3, cache_write=4),
        is_hanging=True,
        repeat=3,
    )
    assert second == ScriptedAnswer(error=ScriptedError("busy", 503), repeat=FOR_EVER)
    assert third == ScriptedAnswer(error=ScriptedError("broken off"))


def test_a_script_may_be_a_list_of_turns_alone(tmp_path: Path) -> None:
    assert load(tmp_path, "- text: a\n- text: b\n") == Script(
        (ScriptedAnswer(text=("a",)), ScriptedAnswer(text=("b",)))
    )


def test_the_same_script_may_be_written_as_json(tmp_path: Path) -> None:
    script = {"delay_ms": 1, "turns": [{"text": "a", "tools": [{"name": "bash", "arguments": {"command": "ls"}}]}]}

    expected = Script((ScriptedAnswer(text=("a",), tools=(ScriptedCall("bash", {"command": "ls"}),)),), delay_ms=1)
    assert load(tmp_path, json.dumps(script), "s.json") == expected
    assert load(tmp_path, json.dumps(script, indent=2), "S.JSON") == expected
    assert load(tmp_path, json.dumps(script), "s.yaml") == expected


def test_what_is_null_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    assert load(tmp_path, '[{"text": null, "match": null, "delay_ms": null}]', "s.json") == Script((ScriptedAnswer(),))


def test_words_that_older_yaml_takes_for_booleans_are_words(tmp_path: Path) -> None:
    assert load(tmp_path, "- text: [on, no, y]\n").turns[0].text == ("on", "no", "y")


def test_a_pattern_knows_no_case_and_its_dot_every_character(tmp_path: Path) -> None:
    (turn,) = load(tmp_path, "- match: a.b\n").turns

    assert turn.match is not None
    assert turn.match.search("xxA\nBxx")


def test_half_a_character_may_be_scripted(tmp_path: Path) -> None:
    """To try out what a client makes of a model whose tokens end inside of a character."""
    assert load(tmp_path, '[{"text": ["\\ud83d", "\\ude00"]}]', "s.json").turns[0].text == ("\ud83d", "\ude00")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "the file: expected a list of turns, or an object with `turns`, got null"),
        ("hello", "the file: expected a list of turns, or an object with `turns`, got a string"),
        ("turns: 3", "turns: expected a list, got a number"),
        ("turn: []", "the file: unknown key turn; known are turns, delay_ms"),
        ("delay_ms: -1", "delay_ms: expected milliseconds, 0 or more, got a number"),
        ("delay_ms: .inf", "delay_ms: expected milliseconds, 0 or more, got a number"),
        ("- hi", "turns[0]: expected an object, got a string"),
        ("- text: a\n- txet: b", "turns[1]: unknown key txet; known are match, thinking, text, tools, delay_ms, "),
        ("- 1: a", "turns[0]: unknown key 1; known are "),
        ("- text: 5", "turns[0].text: expected a text or a list of texts, got a number"),
        ("- text: [a, 5]", "turns[0].text[1]: expected a text, got a number"),
        ("- text: 2024-01-01", "turns[0].text: expected a text or a list of texts, got a date"),
        ("- match: (", "turns[0].match: expected a regular expression (missing ), unterminated subpattern"),
        ("- match: [a]", "turns[0].match: expected a text, got an array"),
        ("- tools: {name: a}", "turns[0].tools: expected a list, got an object"),
        ("- tools: [bash]", "turns[0].tools[0]: expected an object, got a string"),
        ("- tools: [{arguments: {}}]", "turns[0].tools[0].name: expected a text, got null"),
        ("- tools: [{name: a, args: {}}]", "turns[0].tools[0]: unknown key args; known are name, arguments, id"),
        ("- tools: [{name: a, arguments: [1]}]", "turns[0].tools[0].arguments: expected an object, got an array"),
        (
            "- tools: [{name: a, arguments: {x: [2024-01-01]}}]",
            "turns[0].tools[0].arguments.x[0]: expected what JSON has (write it in quotes), got a date",
        ),
        (
            "- tools: [{name: a, arguments: {1: x}}]",
            "a key of turns[0].tools[0].arguments: expected a text, got a number",
        ),
        (
            "- tools: [{name: a, arguments: {x: .nan}}]",
            "turns[0].tools[0].arguments.x: expected a finite number, got a number",
        ),
        ("- delay_ms: fast", "turns[0].delay_ms: expected milliseconds, 0 or more, got a string"),
        ("- start_delay_ms: true", "turns[0].start_delay_ms: expected milliseconds, 0 or more, got a boolean"),
        ("- error: 5", "turns[0].error: expected a text, or an object with `message`, got a number"),
        ("- error: {status: 200}", "turns[0].error.status: expected an HTTP status from 400 to 599, got a number"),
        ("- error: {message: [a]}", "turns[0].error.message: expected a text, got an array"),
        (
            "- stop: error",
            "turns[0].stop: expected one of stop, length, toolUse (failures are written as `error`), got a string",
        ),
        ("- stop: toolUse", "turns[0].tools: expected calls, since `stop` is toolUse, got null"),
        ("- usage: {input: 1.5}", "turns[0].usage.input: expected a whole number, 0 or more, got a number"),
        ("- usage: {tokens: 1}", "turns[0].usage: unknown key tokens; known are input, output, "),
        ("- hang: 1", "turns[0].hang: expected true or false, got a number"),
        ("- repeat: 0", "turns[0].repeat: expected a whole number, 1 or more, or `forever`, got a number"),
        ("- repeat: ever", "turns[0].repeat: expected a whole number, 1 or more, or `forever`, got a string"),
    ],
)
def test_what_is_wrong_is_named_with_its_place_and_what_was_expected(text: str, said: str, tmp_path: Path) -> None:
    assert problem(tmp_path, text).startswith(said)


def test_a_value_that_holds_itself_is_refused(tmp_path: Path) -> None:
    said = problem(tmp_path, "- tools: [{name: a, arguments: &x {again: *x}}]")

    assert said.endswith("expected at most 64 levels, got an object")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("- text: [a\n- b", "not YAML: line 2, column 4: "),
        ('- "text', "not YAML: line 1, column "),
        ("- text: a\n  text: b", "not YAML: line 2, column 3: "),
        (b"- text: \xff", "not YAML: "),
        ("- text: \x00", "not YAML: "),
        ("a: b\n---\nc: d", "not YAML: "),
        ("[" * 5_000, "nested too deeply"),
    ],
)
def test_what_is_no_yaml_is_named_with_its_place(text: str | bytes, said: str, tmp_path: Path) -> None:
    assert problem(tmp_path, text).startswith(said)


@pytest.mark.parametrize("text", ["", "{", "[1,]", '[{"text": "a"} x]', b"\xff"])
def test_what_is_no_json_is_named_so(text: str | bytes, tmp_path: Path) -> None:
    assert problem(tmp_path, text, "s.json").startswith("not JSON: ")


def test_a_file_that_is_not_there_is_named_so(tmp_path: Path) -> None:
    with pytest.raises(ScriptError) as caught:
        load_script(tmp_path / "none.yaml")
    assert str(caught.value) == f"Offline script {tmp_path / 'none.yaml'}: cannot be read: No such file or directory"


def test_what_is_no_file_is_not_read(tmp_path: Path) -> None:
    """Reading a pipe or a device would never end."""
    os.mkfifo(tmp_path / "pipe.yaml")

    for path in (tmp_path, tmp_path / "pipe.yaml", Path("/dev/zero")):
        with pytest.raises(ScriptError, match=r": not a file$"):
            load_script(path)


def test_a_path_that_is_none_is_an_error_like_any_other() -> None:
    with pytest.raises(ScriptError, match="cannot be read"):
        load_script(Path("a\0b.yaml"))


def test_a_file_that_is_far_too_large_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "s.yaml").open("wb") as file:
        file.truncate(100 * 1024 * 1024)

    with pytest.raises(ScriptError, match=r"larger than \d+ bytes$"):
        load_script(tmp_path / "s.yaml")


@given(st.text(st.sampled_from("ab \t\n\u2003é𝄞")) | st.text())
def test_a_text_is_cut_and_nothing_is_lost(text: str) -> None:
    deltas = pieces(text)

    assert "".join(deltas) == text
    assert all(deltas)


def test_a_text_is_cut_into_words() -> None:
    assert pieces("Hello, big  world!\nNext\n") == ("Hello, ", "big  ", "world!", "\nNext", "\n")
    assert max(map(len, pieces("x" * 100))) <= 25
