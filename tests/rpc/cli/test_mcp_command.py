"""`pinnace mcp`: the files that it changes, and the servers that it tries."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.agent.mcp.web_server import web_server
from tests.rpc.conftest import COMMAND, CONVERSATION_TIMEOUT_S

HERE = Path(__file__).parents[1] / "mcp"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs the command in a folder, with an agent folder beside it."""
    work = tmp_path / "work"
    work.mkdir()

    def start(*words: str, **env: str) -> "subprocess.CompletedProcess[str]":
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PI_CODING_AGENT_DIR": str(tmp_path / "agent")}
        return subprocess.run(
            [*COMMAND, "mcp", *words],
            env={**environment, **env},
            cwd=work,
            capture_output=True,
            text=True,
            timeout=CONVERSATION_TIMEOUT_S,
            check=False,
        )

    return start


def file_of(tmp_path: Path) -> Any:
    return json.loads((tmp_path / "agent" / "mcp.json").read_text())


def test_servers_are_added_and_removed_and_the_rest_of_the_file_stays(run: Run, tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    kept = {"autoEnableCodemode": False, "mcpServers": {"old": {"command": "x", "own": 1}}}
    (tmp_path / "agent" / "mcp.json").write_text(json.dumps(kept))
    added = run("add", "tools", "--env", "KEY=${OUTSIDE}", "--description", "Tools.", "--", "npx", "-y", "tools")
    assert (added.returncode, added.stderr) == (0, "")
    web = run("add", "web", "--url", "https://x/mcp", "--header", "A=literal", "--bearer-token-env-var", "TOKEN")
    assert web.returncode == 0
    assert "name a variable instead" in web.stderr
    entry = {"command": "npx", "args": ["-y", "tools"], "env": {"KEY": "${OUTSIDE}"}, "description": "Tools."}
    headers = {"A": "literal", "Authorization": "Bearer ${TOKEN}"}
    assert file_of(tmp_path) == {
        **kept,
        "mcpServers": {**kept["mcpServers"], "tools": entry, "web": {"url": "https://x/mcp", "headers": headers}},  # type: ignore[dict-item]
    }
    assert run("remove", "tools").returncode == 0
    assert list(file_of(tmp_path)["mcpServers"]) == ["old", "web"]
    again = run("remove", "tools")
    assert (again.returncode, "has no server tools" in again.stderr) == (1, True)


def test_a_server_is_added_with_how_to_sign_in(run: Run, tmp_path: Path) -> None:
    words = ["--oauth-client-id", "me", "--oauth-client-secret", "${SECRET}", "--oauth-callback-port", "8765"]
    added = run("add", "web", "--url", "https://x/mcp", *words, "--oauth-client-registration", "dcr")
    assert (added.returncode, added.stderr) == (0, "")
    oauth = {"clientId": "me", "clientSecret": "${SECRET}", "callbackPort": 8765, "clientRegistration": "dcr"}
    assert file_of(tmp_path) == {"mcpServers": {"web": {"url": "https://x/mcp", "oauth": oauth}}}


def test_a_project_has_a_file_of_its_own(run: Run, tmp_path: Path) -> None:
    added = run("add", "-l", "tools", "--", "x")
    assert (added.returncode, "the project is not trusted" in added.stderr) == (0, True)
    assert json.loads((tmp_path / "work" / ".pi" / "mcp.json").read_text()) == {
        "mcpServers": {"tools": {"command": "x"}}
    }
    listed = run("list")
    assert (listed.returncode, "is ignored: the project is not trusted" in listed.stderr) == (0, True)
    assert "trust would start: MCP server " in listed.stderr


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["add", "a"], 2, "either --url URL or -- COMMAND"),
        (["add", "a", "--url", "https://x", "--", "x"], 2, "either --url URL or -- COMMAND"),
        (["add", "a", "--url", "https://x", "--env", "A=b"], 2, "--env is for programs"),
        (["add", "a", "--header", "A=b", "--", "x"], 2, "--header is for servers with --url"),
        (["add", "a", "--oauth-client-id", "x", "--", "x"], 2, "--oauth options are for servers with --url"),
        (["add", "a", "--url", "https://x", "--oauth-callback-port", "x"], 1, "oauth.callbackPort must be"),
        (["add", "a", "--env", "A", "--", "x"], 2, "--env takes NAME=VALUE"),
        (["add", "a", "--url", "https://x", "--bearer-token-env-var", ""], 2, "must be the name of a variable"),
        (["add", "a b", "--", "x"], 1, 'invalid server name "a b"'),
        (["add", "a", "--exposure", "x", "--", "x"], 1, "exposure must be one of"),
        (["test", "a"], 1, 'no mcp server named "a"'),
        (["tset"], 2, "test"),
        ([], 2, "list"),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_written(
    run: Run, tmp_path: Path, words: list[str], code: int, text: str
) -> None:
    done = run(*words)
    assert (done.returncode, text.lower() in done.stderr.lower()) == (code, True), done.stderr
    assert not (tmp_path / "agent" / "mcp.json").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["npx", "-y", "server", "--flag", "--", "x"],
        ["--description", "d", "npx", "-y", "server", "--flag", "--", "x"],
        ["--description=d", "--", "npx", "-y", "server", "--flag", "--", "x"],
        ["-l", "npx", "-y", "server", "--flag", "--", "x"],
    ],
)
def test_the_program_of_a_server_needs_no_dashes_before_it(run: Run, tmp_path: Path, words: list[str]) -> None:
    """As in the original: what follows the name and is no option is the program, with all of its words."""
    assert run("add", "tools", *words).returncode == 0
    path = tmp_path / "work" / ".pi" / "mcp.json" if "-l" in words else tmp_path / "agent" / "mcp.json"
    entry = json.loads(path.read_text())["mcpServers"]["tools"]
    assert (entry["command"], entry["args"]) == ("npx", ["-y", "server", "--flag", "--", "x"])
    assert run("add", "tools", *words).stdout == f"tools: replaced in {path}\n"


@pytest.mark.parametrize(
    ("words", "name"),
    [(["add", "b", "--", "y"], "mcp.json"), (["remove", "a"], "mcp.json"), (["logout", "a"], "mcp-auth.json")],
)
def test_a_file_that_is_broken_is_named_and_kept(run: Run, tmp_path: Path, words: list[str], name: str) -> None:
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "mcp.json").write_text('{"mcpServers": {"a": {"url": "http://127.0.0.1:9/"}}}')
    path = tmp_path / "agent" / name
    path.write_text("{broken")
    done = run(*words)
    assert (done.returncode, done.stderr.startswith(f"pinnace: {path}: is not valid JSON: ")) == (1, True), done.stderr
    assert path.read_text() == "{broken"


def test_servers_are_connected_and_called(run: Run, tmp_path: Path) -> None:
    secret = "sekret-of-the-command-line"
    run("add", "good", "--env", "OF_SERVER=$OUTSIDE_TOKEN", "--", sys.executable, str(HERE / "ordinary_server.py"))
    good = run("list", OUTSIDE_TOKEN=secret)
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout.startswith("good: connected (user, ")
    assert "\n  add: Add two numbers.\n" in good.stdout
    assert "\n  /mcp__good__greet: Greet somebody.\n" in good.stdout
    assert good.stdout.endswith("\n  offers resources\n")
    tested = run("test", "good", "--json", "--call", "environment", '{"name": "OF_SERVER"}', OUTSIDE_TOKEN=secret)
    assert tested.returncode == 0
    shown = json.loads(tested.stdout)
    assert shown["result"]["content"] == [{"type": "text", "text": "[redacted]"}]
    assert {"add", "ask", "count"} <= set(shown["tools"])
    assert (shown["prompts"], shown["resources"], shown["dropped"]) == (["greet"], True, [])
    assert shown["protocol"]
    assert {"seconds", "callSeconds"} <= shown.keys()
    assert run("test", "good", "--call", "no_such_tool").returncode == 1
    run("add", "bad", "--", sys.executable, "-S", str(HERE / "hostile_server.py"), "dies-at-once")
    both = run("list", "--json")
    assert both.returncode == 1
    good_one, bad_one = json.loads(both.stdout)["servers"]
    assert (good_one["state"], bad_one["state"]) == ("failed", "failed")
    assert "OUTSIDE_TOKEN is not set" in good_one["error"]
    assert "exit code 3" in bad_one["error"]
    assert not any(secret in text for text in (good.stdout, tested.stdout))


def test_servers_are_reached_through_the_proxy_of_the_settings(run: Run, tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    with web_server() as proxy:
        settings = {"httpProxy": f"http://127.0.0.1:{proxy.port}"}
        (tmp_path / "agent" / "settings.json").write_text(json.dumps(settings))
        assert run("add", "web", "--url", "http://server.invalid/mcp").returncode == 0
        listed = run("list")
        assert (listed.returncode, listed.stdout.startswith("web: connected")) == (0, True), listed.stdout
        assert {headers["host"] for _, _, headers in proxy.seen} == {"server.invalid"}


def test_a_listing_in_json_has_what_the_originals_has(run: Run, tmp_path: Path) -> None:
    (tmp_path / "agent").mkdir()
    hostile: dict[str, Any] = {"command": sys.executable, "args": ["-S", str(HERE / "hostile_server.py"), "none"]}
    servers = {
        "a": {**hostile, "toolExposure": {"b*": "hidden"}},
        "b": {"url": "http://127.0.0.1:9/", "auth": {"provider": "acme"}, "enabled": False, "exposure": "direct"},
    }
    (tmp_path / "agent" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    one, two = json.loads(run("list", "--json").stdout)["servers"]
    source = str(tmp_path / "agent" / "mcp.json")
    assert one == {
        "name": "a",
        "scope": "global",
        "source": source,
        "enabled": True,
        "exposure": "codemode",
        "transport": " ".join([hostile["command"], *hostile["args"]]),
        "state": "connected",
        "tools": ["echo", "bad"],
        "toolExposure": {"bad": "hidden"},
        "prompts": [],
        "dropped": [],
        "protocol": "2025-11-25",
    }
    assert (two["state"], two["authProvider"], two["exposure"]) == ("disabled", "acme", "direct")


def test_a_folder_that_is_missing_is_named(run: Run) -> None:
    assert run("add", "lost", "--cwd", "nowhere", "--", sys.executable).returncode == 0
    listed = run("list")
    assert (listed.returncode, "work/nowhere is no folder" in listed.stdout) == (1, True), listed.stdout


def test_prompts_that_can_not_be_listed_are_reported(run: Run, tmp_path: Path) -> None:
    run("add", "bad", "--", sys.executable, "-S", str(HERE / "hostile_server.py"), "refuses-prompts")
    shown = json.loads(run("list", "--json").stdout)["servers"][0]
    assert (shown["state"], shown["prompts"]) == ("connected", [])
    assert shown["dropped"] == ["its prompts can't be listed: no prompts today"]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["login", "nobody"], 1, "no MCP server named"),
        (["login", "program"], 1, "does not use OAuth"),
        (["login", "header"], 1, "does not use OAuth"),
        (["login", "provider"], 1, "pinnace auth login acme"),
        (["login", "plain", "-l"], 1, "omit --local"),
        (["login", "plain", "--timeout", "soon"], 2, "--timeout must be a positive number"),
        (["login", "plain"], 1, "failed to connect"),
        (["logout", "plain"], 0, "No stored credentials"),
        (["logout", "provider"], 1, "pinnace auth logout acme"),
    ],
)
def test_a_sign_in_that_is_not_possible_is_refused(
    run: Run, tmp_path: Path, words: list[str], code: int, text: str
) -> None:
    url = "http://127.0.0.1:9/mcp"
    servers = {
        "program": {"command": "x"},
        "header": {"url": url, "headers": {"authorization": "x"}},
        "provider": {"url": url, "auth": {"provider": "acme"}},
        "plain": {"url": url},
    }
    (tmp_path / "agent").mkdir()
    (tmp_path / "agent" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    done = run(*words)
    assert (done.returncode, text in done.stdout + done.stderr) == (code, True), done.stdout + done.stderr
