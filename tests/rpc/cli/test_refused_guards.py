"""Limits and guards that are not understood: nothing starts, exit code 2, and the nearest name is suggested."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from tests.source_tree import PYTHONPATH

from pinnace_fuzz.harness.adapters import PreparedHome, prepare_pi_home

COMMAND = (sys.executable, "-P", "-m", "pinnace_rpc")
TIMEOUT_S = 60.0
GET_STATE = b'{"id":"s","type":"get_state"}\n{"id":"p","type":"prompt","message":"go"}\n'
# Registers one tool while it is loaded, and one while the session starts.
BRINGS_TOOLS = """
from pinnace.extensions import CommandContext, Context, ExtensionAPI, ToolContext


def extension(pi: ExtensionAPI) -> None:
    @pi.tool()
    def deploy(ctx: ToolContext) -> str:
        '''Deploy.'''
        return "done"

    @pi.on("session_start")
    def later(ctx: Context, event: object) -> None:
        @pi.tool()
        def publish(ctx: ToolContext) -> str:
            '''Publish.'''
            return "done"
"""


@pytest.fixture
def home(tmp_path: Path) -> PreparedHome:
    # A request to a model would be refused at this address, and the exit code another one.
    return prepare_pi_home(tmp_path, "http://127.0.0.1:9", env={"PYTHONPATH": PYTHONPATH})


def start(home: PreparedHome, *words: str, text: bytes = GET_STATE) -> CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *words],
        cwd=home.work,
        env=dict(home.env),
        input=text,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def serve(home: PreparedHome, *words: str) -> CompletedProcess[bytes]:
    return start(home, *home.arguments, *words)


def settings(home: PreparedHome, content: Mapping[str, object] | str) -> None:
    text = content if isinstance(content, str) else json.dumps(content)
    (home.agent_dir / "settings.json").write_text(text, encoding="utf-8")


def extension(home: PreparedHome) -> str:
    file = home.work / "brings.py"
    file.write_text(BRINGS_TOOLS, encoding="utf-8")
    return str(file)


@pytest.mark.parametrize("mode", [["--mode", "rpc"], ["-p", "go"]])
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-xt", "bsh"], '--exclude-tools: there is no tool named "bsh"; did you mean bash?'),
        (["--exclude-tools", "bash,wrte"], '--exclude-tools: there is no tool named "wrte"; did you mean write?'),
        (["-t", "bsh"], '--tools: there is no tool named "bsh"; did you mean bash?'),
        (["--tools", "+subagnt"], '--tools: there is no tool named "subagnt"; did you mean subagent?'),
        (["--tools", "-bsh"], '--tools: there is no tool named "bsh"; did you mean bash?'),
        (["--thinking", "hihg"], "did you mean high?"),
        (["--tool-approval", "asks"], "--tool-approval takes"),
        (["--max-turns", "-1"], "--max-turns takes a whole number from 1 on"),
        (["--max-cost", "nan"], "--max-cost takes a number greater than 0"),
    ],
)
def test_a_restriction_that_is_not_understood_starts_nothing(
    home: PreparedHome, mode: list[str], words: list[str], message: str
) -> None:
    done = start(home, "--no-session", "--provider", "fake", "--model", "m1", "-ne", *words, *mode)

    assert (2, b"") == (done.returncode, done.stdout)
    assert message in done.stderr.decode()


@pytest.mark.parametrize("word", ["mcp_*", "codemode", "powershell", "b[a-z]sh2"])
def test_a_pattern_without_a_tool_and_a_tool_of_pi_are_understood(home: PreparedHome, word: str) -> None:
    done = serve(home, "-ne", "-xt", word)

    assert 0 == done.returncode
    assert f'there is no tool named "{word}"' in done.stderr.decode()


@pytest.mark.parametrize("tool", ["deploy", "publish"])
def test_a_tool_of_an_extension_is_a_name_that_is_understood(home: PreparedHome, tool: str) -> None:
    done = serve(home, "-e", extension(home), "-xt", tool)

    assert (0, "") == (done.returncode, done.stderr.decode())


@pytest.mark.parametrize("mode", [["--mode", "rpc"], ["-p", "go"]])
def test_a_name_that_no_extension_brings_is_refused_before_any_prompt_runs(home: PreparedHome, mode: list[str]) -> None:
    words = ["--no-session", "--provider", "fake", "--model", "m1", "-e", extension(home), "-xt", "deplyo"]
    done = start(home, *words, *mode)

    assert 2 == done.returncode
    assert '--exclude-tools: there is no tool named "deplyo"; did you mean deploy?' in done.stderr.decode()
    assert b"agent_start" not in done.stdout


def test_keep_going_starts_without_extensions_that_were_found_and_never_without_those_named(home: PreparedHome) -> None:
    """R-EXT-14: nor by a folder; a tool that one of those found would bring is warned of."""
    folder = home.work / "gate"
    folder.mkdir()
    for file in (home.work / "broken.py", folder / "extension.py"):
        file.write_text("import nothing_of_this_name\n")
    for named in ("broken.py", "gate", "missing.py"):
        done = serve(home, "-e", named, "--keep-going", "-xt", "deploy")
        assert (1, False) == (done.returncode, b"agent_start" in done.stdout)
        assert "may be a gate, so nothing starts without it" in done.stderr.decode()
    (home.agent_dir / "extensions").mkdir()
    (home.work / "broken.py").rename(home.agent_dir / "extensions" / "broken.py")
    done = serve(home, "--keep-going", "-xt", "deploy")
    assert 0 == done.returncode
    assert 'there is no tool named "deploy"' in done.stderr.decode()
    assert "broken.py: needs the module" in done.stderr.decode()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"limits": {"maxTurn": 3}}, "limits.maxTurn: is not known; did you mean maxTurns?"),
        ({"limits": {"maxTurns": "3"}}, "limits.maxTurns: must be a whole number"),
        ({"limits": {"maxCost": -1}}, "limits.maxCost: must be a number of USD"),
        ({"limit": {"maxTurns": 3}}, "limit: is not known; did you mean limits?"),
        ({"maxTurns": 3}, "maxTurns: is not known here; did you mean limits.maxTurns?"),
        ({"tools": {"timeout": 3}}, "tools.timeout: is not known; did you mean timeoutSeconds?"),
        ({"tools": ["read"]}, "tools: must be an object"),
        ({"retry": {"maxRetrys": 0}}, "retry.maxRetrys: is not known; did you mean maxRetries?"),
        ({"retry": {"provider": {"timeout": 1}}}, "retry.provider.timeout: is not known; did you mean timeoutMs?"),
        ({"compaction": {"reservedTokens": 1}}, "did you mean reserveTokens?"),
        ({"compaction": {"modelOverrides": {"a/b": {"reserve": 1}}}}, "compaction.modelOverrides.a/b: must be"),
        ({"sandbox": {"enabled": True}}, "sandbox.enabled: is not known"),
        ({"sandbox": False}, "sandbox: must be an object"),
        ({"defaultTools": ["-bsh"]}, 'defaultTools: there is no tool named "bsh"; did you mean bash?'),
        ({"defaultThinkingLevel": "hihg"}, "defaultThinkingLevel: must be one of off"),
        ({"modelThinkingLevels": {"fake/m1": "hihg"}}, "modelThinkingLevels.fake/m1: must be one of off"),
        ({"images": {"blockImages": "yes"}}, "images.blockImages: must be true or false"),
        ('{"limits": {"maxTurns": 3},}', "it holds limits, which must not be passed over"),
    ],
)
def test_settings_that_should_limit_and_are_not_understood_start_nothing(
    home: PreparedHome, content: Mapping[str, object] | str, message: str
) -> None:
    settings(home, content)
    done = serve(home, "-ne")

    assert (2, b"") == (done.returncode, done.stdout)
    assert message in done.stderr.decode()
    assert "settings.json" in done.stderr.decode() or "defaultTools" in done.stderr.decode()


# As release 1.5.2 knows and writes them: its documents name these keys.
OF_PI: dict[str, object] = {
    **dict.fromkeys("theme quietStartup hideThinkingBlock tuiMode terminal markdown warnings transport".split()),
    "lastChangelogVersion": "1.5.2",
    "defaultProvider": "fake",
    "defaultModel": "m1",
    "defaultThinkingLevel": "xhigh",
    "defaultTools": ["read", "codemode", "-powershell", "todo"],
    "enabledModels": ["no-such-model"],
    "compaction": {"enabled": True, "reserveTokens": 1, "keepRecentTokens": 1, "modelOverrides": {"a/b": {}}},
    "branchSummary": {"reserveTokens": 16384, "skipPrompt": False},
    "retry": {
        "enabled": True,
        "maxRetries": 3,
        "baseDelayMs": 2000,
        "maxAgentDelayMs": 60000,
        "maxDelayMs": 60000,
        "provider": {"timeoutMs": 1000, "maxRetries": 0, "maxRetryDelayMs": 60000},
    },
    "httpIdleTimeoutMs": "disabled",
    "codemode": {"mode": "on", "inlineBudget": 3000},
    "cacheWarming": "idle",
}


def test_settings_of_pi_are_understood(home: PreparedHome) -> None:
    settings(home, OF_PI)
    done = serve(home, "-ne")

    assert 0 == done.returncode, done.stderr
    assert b'"success":true' in done.stdout


@pytest.mark.parametrize(
    ("words", "near"),
    [
        (["sesions"], "sessions"),
        (["session", "--all"], "sessions"),
        (["trsut", "."], "trust"),
        (["auht", "login", "openai"], "auth"),
        (["instal", "npm:x"], "install"),
        (["completions"], "completion"),
        (["help"], "--help"),
        (["version"], "--version"),
        (["login", "openai"], "auth"),
        (["docter"], "doctor"),
        (["Doctr", "--json"], "doctor"),
        (["models"], "--list-models"),
        (["extensions"], "doctor"),
        (["staus"], "auth status"),
        (["stauts"], "auth status"),
        (["status", "--json"], "auth status"),
        (["restrat"], "agents restart"),
    ],
)
def test_a_misspelt_subcommand_is_no_prompt(home: PreparedHome, words: list[str], near: str) -> None:
    done = start(home, *words, text=b"")

    assert (2, b"") == (done.returncode, done.stdout)
    assert f"unknown subcommand {words[0]}; did you mean {near}?" in done.stderr.decode()
    assert f"pinnace -p {words[0]}" in done.stderr.decode()


@pytest.mark.parametrize(
    "words",
    [
        ["-p", "sesions"],
        ["--", "sesions"],
        ["sesions are lost"],
        ["sesions", "are they lost?"],
        ["hello"],
        ["-p", "doctor"],
        ["--", "staus"],
        ["status", "of", "this"],
        ["test"],
    ],
)
def test_a_prompt_that_is_meant_or_prose_is_one(home: PreparedHome, words: list[str]) -> None:
    """The offline model answers it."""
    done = start(home, "--no-session", "--provider", "offline", *words, text=b"")
    assert 0 == done.returncode, done.stderr
    # And where the word stands first, as it does on a command line without options.
    done = start(home, *words, "--no-session", "--provider", "offline", text=b"") if words[0] != "--" else done
    assert 0 == done.returncode, done.stderr
    assert b"You said" in done.stdout
