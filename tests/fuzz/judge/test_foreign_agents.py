"""Agents by others: the adapters that come with the kit point them at its model, and only there.

They are what scripts/peers installs, some of it only when it is asked to; without them these tests are skipped.
"""

import os
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

from pinnace_fuzz.judge.adapter import Adapter, AdapterError, FileAdapter, LaunchOptions, PiAdapter, write_files
from pinnace_fuzz.judge.adapter_names import adapter
from pinnace_fuzz.judge.playing.kit import AgentUnderTest
from pinnace_fuzz.judge.playing.load import LoadMeter
from pinnace_fuzz.judge.playing.play import Played, play
from pinnace_fuzz.judge.probing import probe
from pinnace_fuzz.judge.running import folder
from pinnace_fuzz.judge.scenarios.reading import read_scenario
from pinnace_fuzz.judge.scenarios.shapes import as_object
from pinnace_spec.observers.trace_file import record_of
from pinnace_spec.profiles.generations import GenerationName, generation

ROOT = Path(__file__).parents[3]
TOOLS = ROOT / ".tools"
SHIPPED = ("aelix", "codex-acp", "gemini-cli", "omp", "opencode", "qwen-code", "tau")
ALWAYS = "pp-0.2.2"


def program(name: str, at: str) -> str:
    path = TOOLS / name / "bin" / at
    if not path.exists():
        reason = f"{name} is not there: scripts/peers {'' if name == ALWAYS else 'judged '}installs it"
        # CI installs the one; the others are large.
        if name == ALWAYS and os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return str(path)


@pytest.fixture
def meter() -> Generator[LoadMeter]:
    with LoadMeter() as running:
        yield running


def asked(
    command: list[str], used: Adapter, root: Path, meter: LoadMeter, which: GenerationName = "seed"
) -> tuple[Played, list[Mapping[str, Any]]]:
    """Ask for the state, then let the model be asked once; return what was played and what the agent wrote."""
    kit = AgentUnderTest(tuple(command), used, used.capabilities, generation(which), root, meter)
    source = {
        "id": "KIT/one-answer",
        "title": "One answer of the model.",
        "rules": ["R-RUN-01"],
        "llm": [{"text": "from the kit", "repeat": -1}],
        "client": [
            {"ask": {"id": "s", "type": "get_state"}},
            {"send": {"id": "p", "type": "prompt", "message": "HELLO"}},
            {"requests": 1},
            {"wait": {"type": "agent_end"}},
        ],
        "exit": None,
    }
    with folder(kit) as home:
        played = play(kit, read_scenario(source), home)
    lines = [line for trace in played.traces for line in trace.recording.lines if line.direction == "out"]
    return played, [record for line in lines if (record := record_of(line.data.decode())) is not None]


def chosen_model(records: list[Mapping[str, Any]]) -> Mapping[str, Any]:
    state = next(each for each in records if each.get("id") == "s")
    data: Mapping[str, Any] = as_object(state.get("data")) or {}
    return as_object(data.get("model")) or {}


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "at", "by", "which"),
    [
        ("pp-0.2.2", "pp", "pi", "0.87"),
        ("aelix-0.1.0b2", "aelix", "aelix", "seed"),
        ("omp-18.2.3", "omp", "omp", "seed"),
        ("tau-0.4.8", "tau", "tau", "0.87"),
    ],
)
def test_it_asks_the_kits_model(
    name: str, at: str, by: str, which: GenerationName, tmp_path: Path, meter: LoadMeter
) -> None:
    played, records = asked([program(name, at)], adapter(by), tmp_path, meter, which)

    assert None is played.stopped
    assert ["/v1/chat/completions"] == [request.path for request in played.requests]
    model = chosen_model(records)
    assert ("fake", "m1") == (model["provider"], model["id"])
    assert "from the kit" in str(next(each for each in records if each["type"] == "agent_end"))


@pytest.mark.peer
@pytest.mark.slow
def test_a_vendors_variable_is_enough_for_an_agent_that_reads_it(tmp_path: Path, meter: LoadMeter) -> None:
    command = [program("omp-18.2.3", "omp"), "--mode", "rpc", "--no-session", "--no-title"]

    played, records = asked([*command, "--model", "anthropic/claude-sonnet-4-5"], adapter("env"), tmp_path, meter)

    assert None is played.stopped
    assert {"/v1/messages"} == {request.path for request in played.requests}
    assert "anthropic" == chosen_model(records)["provider"]


def test_a_shipped_adapter_is_found_by_its_name_and_writes_into_the_home_alone(tmp_path: Path) -> None:
    for name in SHIPPED:
        used = adapter(name)
        root = tmp_path / name
        prepared = used.prepare(["agent"], root, "http://127.0.0.1:1", LaunchOptions(model="m2"))

        written = [path for path in root.rglob("*") if path.is_file()]
        assert (name, 1) == (used.name, len(written))
        given = [written[0].read_text(), *prepared.command, *prepared.env.values()]
        assert any("http://127.0.0.1:1" in each for each in given)
        assert any("m2" in each or "gemini-2.5-pro" in each for each in given)
        assert not [each for each in [*prepared.command, *prepared.env.values()] if "${" in each]
        assert str(root.resolve()) in prepared.env["HOME"]


def test_an_agents_own_folder_may_be_elsewhere_in_the_home(tmp_path: Path) -> None:
    used = FileAdapter('capabilities = []\nagent_folder = "home/.other"\n[files]\n"agent/a" = "text"\n')

    prepared = used.prepare(["agent"], tmp_path, "", LaunchOptions(files={"agent/prompts/b.md": "text"}))

    assert tmp_path.resolve() / "home" / ".other" == prepared.folders["agent"]
    assert ["a", "b.md"] == sorted(path.name for path in (tmp_path / "home" / ".other").rglob("*") if path.is_file())


def test_an_answer_of_the_model_has_the_agents_own_words_for_tools() -> None:
    used = adapter("codex-acp")
    call = {"name": "bash", "args": {"command": "ls", "timeout": 1}}
    other = {"name": "read", "args": {"path": "a"}}

    answer = used.in_its_words({"text": "Look.", "tool_calls": [call, other, {"name": "bash", "args": "not JSON"}]})

    shell = {"name": "exec_command", "args": {"cmd": "ls", "timeout": 1}}
    assert {"text": "Look.", "tool_calls": [shell, other, {"name": "exec_command", "args": "not JSON"}]} == answer
    added = adapter("qwen-code").in_its_words({"tool_calls": [call]})["tool_calls"][0]["args"]
    assert {"command": "ls", "timeout": 1, "is_background": False} == added
    assert PiAdapter().in_its_words(answer) is answer


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ('[tools.bash]\nrenamed = {command = "cmd"}\n', "is needed"),
        ('[tools.bash]\nname = "sh"\nrenamed = {command = 1}\n', "a text"),
        ('[tools.bash]\nname = "sh"\nargs = 1\n', "known field"),
        ('[tools]\nbash = "sh"\n', "a mapping"),
        ('[asides]\n"(" = "x"\n', "position 0"),
    ],
)
def test_wrong_words_of_tools_and_wrong_asides_are_refused(text: str, field: str) -> None:
    with pytest.raises(AdapterError, match=field):
        FileAdapter(f"capabilities = []\n{text}")


@pytest.mark.parametrize("where", ["/etc", "../out", "home/../../out"])
def test_no_folder_outside_of_the_home(where: str) -> None:
    with pytest.raises(AdapterError, match="outside"):
        FileAdapter(f'capabilities = []\nagent_folder = "{where}"\n')


@pytest.mark.parametrize("name", ["/out", "work//out", "../out", "agent/../../out"])
def test_no_file_outside_of_the_home(name: str, tmp_path: Path) -> None:
    folders = {each: tmp_path / "home" / each for each in ("work", "agent")}

    with pytest.raises(AdapterError, match="outside"):
        write_files(folders, {name: "text"})


def test_who_names_no_adapter_gets_an_error_that_lists_which_there_are() -> None:
    with pytest.raises(AdapterError, match="pi, attach, json, env, none, aelix, claude-agent-acp, codex-acp"):
        adapter("nobody")


@pytest.mark.peer
@pytest.mark.parametrize(
    ("release", "at", "which"),
    [
        ("pi-0.80.2", "node_modules/.bin/pi", "seed"),
        ("pi-0.87.1", "node_modules/.bin/pi", "0.87"),
        ("pi-1.5.2", "package/dist/bundle/cli.js", "1.5"),
    ],
)
def test_releases_of_the_original_are_held_to_their_generation(
    release: str, at: str, which: GenerationName, tmp_path: Path, meter: LoadMeter
) -> None:
    command = (str(TOOLS / "node22" / "bin" / "node"), str(TOOLS / release / at))
    if missing := [each for each in command if not Path(each).exists()]:
        if os.environ.get("CI"):
            pytest.fail(f"{missing} is not there")
        pytest.skip(f"{missing[0]} is not there: scripts/peers installs it")
    kit = AgentUnderTest(command, PiAdapter(), PiAdapter().capabilities, generation("seed"), tmp_path, meter)
    found = probe(kit)

    assert (which, False, True) == (found.generation, found.is_ours, found.does_llm)
