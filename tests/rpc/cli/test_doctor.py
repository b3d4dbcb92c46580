"""`pinnace doctor`: what is wrong is found by the readers of the start, with what to do, and nothing is changed."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from pinnace_agent.config.models.builtin import all_key_variables
from pinnace_rpc.cli.commands.completion import complete
from pinnace_rpc.cli.commands.doctor import AREAS
from pinnace_rpc.cli.main import main

KEY = "key-4c1f8e9a7b3d5026"
Run = Callable[..., tuple[int, dict[str, Any]]]
LOCAL = {"baseUrl": "http://127.0.0.1:9/v1", "api": "openai-completions", "models": [{"id": "m"}], "apiKey": KEY}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Runs it with these files in the agent folder: texts as they are, others as JSON. Returns the parsed report."""
    home, work = tmp_path / "home", tmp_path / "work"
    agent = home / ".pi" / "agent"
    agent.mkdir(parents=True)
    work.mkdir()
    monkeypatch.chdir(work)
    for name in (*all_key_variables(), "PI_CODING_AGENT_DIR", "PI_CODING_AGENT_SESSION_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))

    def checked(files: Mapping[str, object] | None = None, *words: str, **env: str) -> tuple[int, dict[str, Any]]:
        for name, content in (files or {}).items():
            path = agent / name if not name.startswith(".pi") else work / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content))
            path.chmod(0o600)
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        code = main(["doctor", "--json", *words])
        out = capsysbinary.readouterr().out
        assert 1 == out.count(b"\n")
        assert KEY.encode() not in out
        report: dict[str, Any] = json.loads(out)
        return code, report

    return checked


def problems(report: Mapping[str, Any], area: str | None = None) -> list[dict[str, Any]]:
    return [each for each in report["checks"] if each["state"] == "problem" and area in (None, each["area"])]


def test_where_nothing_is_wrong_the_exit_code_is_0(run: Run, tmp_path: Path) -> None:
    good = {"settings.json": {"theme": "dark"}, "models.json": {"providers": {"local": LOCAL}}}
    code, report = run(good)
    before = sorted(tmp_path.rglob("*"))

    assert (0, [], True, 0, 1) == (code, problems(report), report["ok"], report["problems"], report["version"])
    areas = list(dict.fromkeys(each["area"] for each in report["checks"]))
    assert areas == [area for area in AREAS if area in areas]
    assert {"program", "files", "project", "keys", "model", "extras", "sandbox", "sessions"} <= set(areas)
    assert all(set(each) == {"area", "name", "state", "text", "remedy"} for each in report["checks"])
    states = {each["name"]: each["state"] for each in report["checks"] if each["area"] == "files"}
    assert ("ok", "absent") == (states[str(tmp_path / "home/.pi/agent/models.json")], _state(states, "trust.json"))
    assert ["local/m"] == [each["text"] for each in report["checks"] if each["area"] == "model"]
    assert before == sorted(tmp_path.rglob("*"))


def _state(states: Mapping[str, str], name: str) -> str:
    return next(state for path, state in states.items() if path.endswith(f"/{name}"))


def test_without_a_key_it_says_how_to_give_one(run: Run) -> None:
    code, report = run()

    assert 1 == code
    assert ["start"] == [each["name"] for each in problems(report)]
    assert "pinnace auth login PROVIDER" in problems(report)[0]["remedy"]


@pytest.mark.parametrize(
    ("file", "content", "text"),
    [
        ("settings.json", {"shelPath": "/bin/sh"}, "shelPath: is not known; did you mean shellPath? (ignored)"),
        ("settings.json", {"shellPath": "/no/shell"}, "shellPath: no such file"),
        ("settings.json", {"limits": {"maxTurn": 1}}, "limits.maxTurn: is not known; did you mean maxTurns?"),
        ("settings.json", "{", "is not valid JSON"),
        ("settings.json", {"mcp": {"maxTools": 0}}, "mcp.maxTools must be a positive whole number"),
        ("models.json", {"providers": {"local": LOCAL, "x": {"baseUrl": 1}}}, "providers.x.baseUrl: must be a string"),
        ("auth.json", {"openai": {"type": "key"}}, 'openai: type must be "api_key" or "oauth"'),
        (
            "auth.json",
            {"openai": {"type": "api_key", "apiKey": KEY}},
            "openai: has no key; did you mean key instead of",
        ),
        ("mcp.json", {"mcpServers": {"a": {"comand": "x"}}}, 'server "a": unknown key "comand" is ignored'),
        ("trust.json", {"/": "yes"}, "/: must be true, false or null"),
        ("mcp-auth.json", "[", "is not valid JSON"),
        ("keybindings.json", {"app.exti": "f2"}, "app.exti: there is no such action; did you mean app.exit?"),
    ],
)
def test_a_mistake_in_a_file_is_found_with_the_file_and_what_to_do(
    run: Run, tmp_path: Path, file: str, content: object, text: str
) -> None:
    """Each file has one mistake; the same reader reports it at a start."""
    if file == "keybindings.json":
        pytest.importorskip("textual")
    code, report = run({"models.json": {"providers": {"local": LOCAL}}, file: content})

    assert 1 == code
    found = problems(report, "files")
    assert {str(tmp_path / "home/.pi/agent" / file)} == {each["name"] for each in found}
    assert text in found[0]["text"]
    assert all(file in each["remedy"] for each in found)


def test_a_key_that_others_can_read_is_a_problem(run: Run, tmp_path: Path) -> None:
    run({"auth.json": {"openai": {"type": "api_key", "key": KEY}}})
    file = tmp_path / "home/.pi/agent/auth.json"
    file.chmod(0o644)
    _, report = run()

    assert [f"chmod 600 {file}"] == [each["remedy"] for each in problems(report)]


def test_a_proxy_of_the_environment_that_is_no_address_is_a_problem(run: Run) -> None:
    code, report = run({"models.json": {"providers": {"local": LOCAL}}}, HTTPS_PROXY="ftp://proxy", no_proxy="")

    assert 1 == code
    assert ["HTTPS_PROXY"] == [each["name"] for each in problems(report, "environment")]


def test_a_setting_that_may_be_an_extensions_is_a_note(run: Run) -> None:
    code, report = run({"models.json": {"providers": {"local": LOCAL}}, "settings.json": {"permissions": {}}})

    assert 0 == code
    assert ["permissions"] == [
        each["text"].rpartition(": ")[2]
        for each in report["checks"]
        if each["state"] == "note" and each["area"] == "files"
    ]


def test_extensions_are_loaded_and_failures_reported(run: Run) -> None:
    """Those of an untrusted project are not."""
    extensions = {
        "extensions/good.py": "def extension(pi):\n    pass\n",
        "extensions/bad.py": "raise ValueError('broken')\n",
        ".pi/extensions/project.py": "raise SystemExit(9)\n",
    }
    code, report = run({"models.json": {"providers": {"local": LOCAL}}, **extensions})

    states = {Path(each["name"]).name: each for each in report["checks"] if each["area"] == "extensions"}
    assert (1, "problem") == (code, states["bad.py"]["state"])
    assert "broken" in states["bad.py"]["text"]
    assert "ok" == states["good.py"]["state"]
    assert {"good.py", "bad.py"} == set(states)
    project = next(each for each in report["checks"] if each["area"] == "project")
    assert ("note", "pinnace trust") == (project["state"], project["remedy"])
    assert 0 == run(None, "--no-extensions")[0]


def test_mcp_servers_are_checked_and_none_is_started(run: Run, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    servers = {
        "good": {"command": "sh", "args": ["-c", f"touch {ran}"]},
        "gone": {"command": "no-such-program-here"},
        "unset": {"url": "http://127.0.0.1:9/", "headers": {"Authorization": "Bearer ${NOT_SET_HERE}"}},
        "folder": {"command": "sh", "cwd": "/no/such/folder"},
        "off": {"command": "no-such-program-here", "enabled": False},
    }
    code, report = run({"models.json": {"providers": {"local": LOCAL}}, "mcp.json": {"mcpServers": servers}})

    found = {each["name"]: each for each in report["checks"] if each["area"] == "mcp"}
    assert 1 == code
    assert ["folder", "gone", "unset"] == sorted(each["name"] for each in problems(report, "mcp"))
    assert "the variable NOT_SET_HERE is not set" in found["unset"]["text"]
    assert ("ok", "disabled") == (found["off"]["state"], found["off"]["text"])
    assert "pinnace mcp test good" in found["good"]["text"]
    assert not ran.exists()


def test_keys_are_listed_by_their_source_and_a_default_model_that_does_not_exist_is_a_problem(run: Run) -> None:
    settings = {"defaultProvider": "openai", "defaultModel": "gpt-5x"}
    code, report = run({"settings.json": settings}, OPENAI_API_KEY=KEY)

    keys = {each["name"]: each["text"] for each in report["checks"] if each["area"] == "keys"}
    assert (1, {"openai": "variable OPENAI_API_KEY"}) == (code, keys)
    assert "openai has no model gpt-5x" in problems(report, "model")[0]["text"]


def test_people_get_the_same_as_text(run: Run, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    run({"settings.json": {"shellPath": "/no/shell"}})
    code = main(["doctor"])
    text = capsysbinary.readouterr().out.decode()

    assert 1 == code
    assert "PROBLEM" in text
    assert "shellPath: no such file" in text
    assert "-> correct " in text
    assert text.endswith("2 problems: see -> for what to do\n")


def test_it_is_completed() -> None:
    assert ["doctor"] == [item.value for item in complete([], "doc")]
