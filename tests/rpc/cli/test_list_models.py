"""`--list-models`: a table of what can be used, as the original prints it, and nothing else happens.

What release 1.5.2 printed is kept in tests/data, so that this runs without it. Where it is present it must still print
so. To record anew, delete the file and run this with the original. Only described models are listed, since each
program's built-in ones are of a day of its own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest
from tests.recorded import RecordedCases
from tests.source_tree import PYTHONPATH

from pinnace_rpc.cli.commands.models import is_match

SERVER: Final = {"baseUrl": "http://127.0.0.1:9/v1", "api": "openai-completions"}
IDS: Final = [*"a B c a10 a2 A2 _x -y é z:1 z/1 1 Z".split(), "a b", "air4", "glm4.5air", "5abc"]
SIZES: Final = [
    *(1, 999, 1_000, 1_024, 1_050, 1_099, 1_150, 1_250, 9_999, 10_000, 99_949, 99_950, 128_000, 999_500, 999_999),
    *(1_000_000, 1_000_001, 1_049_999, 1_050_000, 1_250_000, 1_500_000, 10_500_000, 1_000_000_000),
]
MODELS_JSON: Final = {
    "providers": {
        "zz": {**SERVER, "apiKey": "k", "models": [{"id": one} for one in IDS]},
        "Aa": {**SERVER, "apiKey": "k", "models": [{"id": one, "input": ["text", "image"]} for one in IDS[:6]]},
        "a-c": {**SERVER, "apiKey": "k", "models": [{"id": one, "reasoning": True} for one in ("org/x", "org/Y")]},
        "keyless": {**SERVER, "models": [{"id": "unseen"}]},
        "sizes": {
            **SERVER,
            "apiKey": "!exit 1",
            "models": [
                {"id": f"s{place:02}", "contextWindow": size, "maxTokens": size} for place, size in enumerate(SIZES)
            ],
        },
    }
}
CASES: Final = (
    [],
    [""],
    *([word] for word in "zz a-c ORG org/x air4 4air abc5 5abc zza z: é 4.5 unseen nothing a/b / s1 @file".split()),
    ["x org"],
    ["a b"],
    ["zz", "more"],
    ["zz", "--models", "Aa/*"],
    ["--provider", "zz", "--model", "a"],
)
RECORDED: Final = RecordedCases("list-models", len(CASES))


def printed(command: list[str], folder: Path, arguments: list[str], models: object = MODELS_JSON) -> dict[str, Any]:
    agent = folder / "agent"
    agent.mkdir(exist_ok=True)
    (agent / "models.json").write_text(json.dumps(models))
    done = subprocess.run(
        [*command, "--list-models", *arguments],
        cwd=folder,
        env={
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PI_CODING_AGENT_DIR": str(agent),
            "PI_OFFLINE": "1",
            "LANG": "C.UTF-8",
            "PYTHONPATH": PYTHONPATH,
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=120,
    )
    return {"arguments": arguments, "code": done.returncode, "lines": done.stdout.splitlines(), "notice": done.stderr}


PINNACE: Final = [sys.executable, "-P", "-m", "pinnace_rpc"]


@pytest.mark.parametrize("place", range(len(CASES)), ids=lambda place: " ".join(CASES[place]) or "all")
def test_the_table_is_that_of_the_original(place: int, tmp_path: Path) -> None:
    assert RECORDED.read()[place] == printed(PINNACE, tmp_path, CASES[place])


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.parametrize("place", range(len(CASES)), ids=lambda place: " ".join(CASES[place]) or "all")
def test_the_original_still_prints_so(place: int, original_pi: list[str], tmp_path: Path) -> None:
    RECORDED.check_case(place, printed(original_pi, tmp_path, CASES[place]))


def test_without_any_model_a_hint_is_printed_and_all_is_well(tmp_path: Path) -> None:
    result = printed(PINNACE, tmp_path, [], {"providers": {}})
    [line] = result["lines"]
    assert line.startswith("No models available.")
    assert str(tmp_path / "agent" / "models.json") in line
    assert (0, "") == (result["code"], result["notice"])


def test_it_needs_no_mode_and_nothing_else_of_a_command_line_counts(tmp_path: Path) -> None:
    alone = printed(PINNACE, tmp_path, [])
    for more in (["--mode", "rpc"], ["--mode", "json", "--provider", "zz"], ["--resume"], ["--session-id", "-"]):
        assert alone["lines"] == printed(PINNACE, tmp_path, more)["lines"]


def test_no_session_or_file_is_made_and_no_command_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    described = {**SERVER, "apiKey": f"!touch {mark}; echo k", "models": [{"id": "m"}]}
    assert 2 == len(printed(PINNACE, tmp_path, [], {"providers": {"p": described}})["lines"])
    assert not mark.exists()
    assert ["models.json"] == [path.name for path in (tmp_path / "agent").iterdir()]
    assert ["agent"] == [path.name for path in tmp_path.iterdir()]


def test_what_is_wrong_with_models_json_is_reported_beside_the_table(tmp_path: Path) -> None:
    broken = {"providers": {"bad": {"models": [{"id": "m"}]}, "zz": MODELS_JSON["providers"]["zz"]}}
    result = printed(PINNACE, tmp_path, ["air4"], broken)
    assert (0, 3) == (result["code"], len(result["lines"]))
    assert "providers.bad.models[0]: needs baseUrl" in result["notice"]


def test_a_name_does_nothing_to_the_terminal(tmp_path: Path) -> None:
    described = {**SERVER, "apiKey": "k", "models": [{"id": "\u001b]0;title\u0007x\r\n"}]}
    result = printed(PINNACE, tmp_path, [], {"providers": {"p": described}})
    assert "p         \ufffd]0;title\ufffdx\ufffd\ufffd" in result["lines"][1]


def test_a_key_is_never_printed(tmp_path: Path) -> None:
    described = {**SERVER, "apiKey": "sk-marker", "headers": {"X": "sk-marker"}, "models": [{"id": "m"}]}
    result = printed(PINNACE, tmp_path, [], {"providers": {"p": described, "q": {"apiKey": ["sk-marker"]}}})
    assert "sk-marker" not in json.dumps(result)


def test_neither_the_agent_nor_what_runs_tasks_is_loaded(tmp_path: Path) -> None:
    result = printed([sys.executable, "-X", "importtime", "-P", "-m", "pinnace_rpc"], tmp_path, ["zz"])
    loaded = {line.split("|")[-1].strip() for line in result["notice"].splitlines()}
    assert "pinnace_rpc.cli.commands.models" in loaded
    assert not {"trio", "pydantic", "httpx", "pinnace_agent.engine.interpreter", "pinnace_agent.shell.process"} & loaded


@pytest.mark.parametrize(
    ("search", "text", "is_meant"),
    [
        ("", "anything", True),
        ("opus", "anthropic claude-opus-5", True),
        ("opus", "anthropic claude-sonnet-4-5", True),
        ("opus", "openai gpt-5", False),
        ("OPUS", "Anthropic Claude-Opus", True),
        ("gpt5", "openai gpt-5", True),
        ("5gpt", "openai gpt-5", True),
        ("b3a", "zz a5b3c", False),
        ("opus anth", "anthropic claude-opus-5", True),
        ("anthropic/opus", "anthropic claude-opus-5", True),
        ("claude.opus", "anthropic claude-opus-5", False),
    ],
)
def test_a_search_means_these(search: str, text: str, is_meant: bool) -> None:
    assert is_meant == is_match(search, text)
