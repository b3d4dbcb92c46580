"""Executes the commands and examples of the README and the documentation, and checks the links between pages.

- `console` blocks show commands after `$ ` and exactly what these print. Those of one section run in one folder.
- `sh` blocks show commands to type. Each line runs against a model server of the tests and must succeed. Of programs
  that take minutes (`LONG`) the options alone are checked: their help must name them.
- `python` and `js` blocks are programs. A `text` block after one of them shows what it prints.
- A block whose first line is `# NAME` is a file, which the console blocks of its page use.

Every other block, and every line that cannot run here, is in `ELSEWHERE`, with the test that covers it or the reason.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from io import BytesIO
from pathlib import Path
from shlex import quote
from typing import Final, NamedTuple

import pytest
from PIL import Image
from tests.source_tree import PYTHONPATH, REPOSITORY

from pinnace_fuzz.harness.adapters import PreparedHome, prepare_pi_home
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.harness.short_folders import make_short_folder

PAGES: Final = sorted(
    str(path.relative_to(REPOSITORY))
    for path in (
        *REPOSITORY.glob("*.md"),
        *REPOSITORY.glob("docs/**/*.md"),
        REPOSITORY / "spec" / "README.md",
        REPOSITORY / "spec" / "scenarios" / "README.md",
    )
)
TIMEOUT_S: Final = 60.0
FENCE: Final = re.compile(
    r"^(?:## (?P<section>[^\n]*)|(?P<indent> *)```(?P<language>\w*)\n(?P<text>.*?)^ *```)$", re.S | re.M
)
FILE: Final = re.compile(r"# ([\w-]+\.\w+)\n")
LONG: Final = re.compile(
    r"pinnace-conform|(?:\S*python) -P -m pinnace_(?:fuzz|campaigns)\.\w+|\S*python tests/benchmarks/\w+\.py"
)
SUBCOMMANDS: Final = frozenset({"acp", "compare", "merge", "observe", "page", "replay", "requirements"})
_SETUP: Final = ".ci/run and test_readme.py"
_WITH: Final = "downloads packages; tests/test_setup.py checks which"
_NEEDS_KEY: Final = "needs a key; test_providers_page.py resolves the model"

_FILES: Final = "tests/rpc/tools/test_client_files.py"
_SERVERS: Final = "servers of others; tests/rpc/cli/test_mcp_command.py has its own"
ELSEWHERE: Final[Mapping[str, str]] = {
    "CONTRIBUTING.md: *": ".ci/run does the same",
    "README.md: scripts/setup && .venv/bin/pinnace demo": _SETUP,
    "README.md: scripts/setup --dev && scripts/check": _SETUP,
    "README.md: ANTHROPIC_API_KEY=... pinnace --mode rpc --model opus": _NEEDS_KEY,
    'README.md: {"providers": {"local": {': "test_readme.py",
    "README.md: pinnace --mode rpc --provider local --model qwen3": "test_readme.py",
    # It would leave a host running.
    "README.md: pinnace attach reviewer --provider offline": "test_durable_agents_page.py",
    "docs/architecture.md: *": "a tree of folders; test_layout.py checks the packages",
    'docs/durable-agents.md: {"type":"attached","agent":"main","protocol":"pi","hostVersion":"0.5.0","sessionId":"…",'
    '"sessionFile":"…","journal":"5f…","epoch":1,"seq":41,"replay":"none","clients":1,"knownClient":false}': (
        "tests/rpc/host/test_host_clients.py"
    ),
    "docs/conformance-in-ci.md: *": "tests/fuzz/judge/test_ci.py, without containers",
    "docs/conformance.md: pip install ./fuzz": "test_distribution.py installs the wheel",
    'docs/conformance.md: name = "other"': "test_foreign_agents.py",
    "docs/durable-agents.md: ssh build-machine pinnace attach reviewer --cursors": "needs another machine",
    "docs/durable-agents.md: # editor": "test_durable_agents_page.py",
    "docs/durable-agents.md: # supervisor": "test_durable_agents_page.py",
    "docs/fleet.md: *": "test_fleet_page.py, and test_engines.py for the cluster",
    'docs/command-line.md: {"type":"result","version":1,"reason":"completed","retryable":false,"exitCode":0,"text":"…",'
    '"stopReason":"stop",': "tests/rpc/print_mode/test_results.py",
    "docs/mcp.md: scripts/setup --with mcp": _WITH,
    'docs/typescript-extensions.md: import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";': (
        "tests/rpc/extensions/test_node_events.py"
    ),
    "docs/mcp.md: pinnace mcp add files -- npx -y @modelcontextprotocol/server-filesystem .": _SERVERS,
    "docs/mcp.md: pinnace mcp add docs --url https://example.com/mcp --bearer-token-env-var DOCS_TOKEN": _SERVERS,
    "docs/mcp.md: pinnace mcp list": _SERVERS,
    "docs/mcp.md: pinnace mcp test files": _SERVERS,
    "docs/mcp.md: pinnace mcp remove docs": _SERVERS,
    'docs/mcp.md: {"type": "mcp_status", "name": "docs", "state": "failed", "source": "user", "transport": "http", '
    '"tools": 0, "error": "HTTP status 503"}': "tests/rpc/mcp/test_states.py",
    "docs/mcp.md: pinnace mcp login docs": "tests/rpc/mcp/test_sign_ins.py",
    "docs/mcp.md: {": "tests/agent/mcp/test_entries.py",
    'docs/editors.md: { "agent_servers": { "pinnace": { "command": "pinnace", "args": ["acp"], "env": {} } } }': (
        "the settings of an editor"
    ),
    'docs/rpc.md: {"type": "session_changed", "reason": "new", "by": "client", "sessionId": "01a2…", "sessionFile": '
    '"/srv/sessions/….jsonl", "leafId": null}': "tests/rpc/sessions/test_session_announcements.py",
    'docs/rpc.md: {"type": "warning", "kind": "project_trust", "text": "/work/site: this project is not trusted, '
    'so what it brings is not read (.pi/settings.json)", "remedy": "`pinnace trust` trusts it from now on, --approve '
    'for one run.", "source": "/work/site"}': "tests/rpc/server/test_warnings.py",
    'docs/rpc.md: {"id": "1", "type": "hello", "delegate": ["read_text_file", "write_text_file"]}': _FILES,
    'docs/rpc.md: ← {"type":"client_request","id":"6f…","method":"read_text_file","toolCallId":"call_1",'
    '"path":"/work/a.py","timeout":10000}': _FILES,
    'docs/rpc.md: → {"id":"1","type":"login","provider":"xai","method":"device-code"}': (
        "tests/rpc/server/test_login_commands.py"
    ),
    'docs/rpc.md: → {"id":"1","type":"hello","surfaces":true}': "tests/rpc/extensions/test_surfaces.py",
    'docs/rpc.md: → {"type":"ui_surface_input","surface":"7e…","text":"draft","number":1,"by":"c1"}': (
        "tests/rpc/extensions/test_extension_editors.py"
    ),
    'docs/rpc.md: → {"id":"4","type":"ui_surface_input","surface":"a1…","columns":76,"item":{"kind":"call",'
    '"name":"todo","id":"call_1","arguments":{"action":"list"}}}': "tests/rpc/extensions/test_items.py",
    'docs/sub-agents.md: → {"id":"1","type":"hello","subagents":true}': "tests/rpc/subagents/test_shown_sub_agents.py",
    'docs/sub-agents.md: → {"id":"1","type":"start_agent","task":"count the sails","messageId":"sails"}': (
        "tests/rpc/subagents/test_started_agents.py"
    ),
    "docs/extensions.md: # pick.py": "tests/rpc/extensions/test_surfaces.py",
    "docs/offline.md: *": "test_offline_page.py",
    "docs/packages.md: *": "installs packages; tests/rpc/packages has its own registry",
    "docs/prompts.md: *": "test_folder_resources.py has the same forms",
    'docs/providers.md: {"providers": {': "test_providers_page.py",
    "docs/python-client.md: # attached": "test_client_attach.py",
    "docs/quickstart.md: scripts/setup": _SETUP,
    "docs/quickstart.md: source .venv/bin/activate": "of a checkout; test_setup.py runs the link's program",
    'docs/quickstart.md: ANTHROPIC_API_KEY=... pinnace -p --model opus "What does this project do?"': _NEEDS_KEY,
    "docs/rpc-reference.md: *": "recorded from the agent; test_recorded_examples.py records them again",
    "docs/recipes.md: *": "test_recipes.py, as far as there are no containers",
    "docs/sandbox.md: pinnace-conform judge --seed 7 --time 10m --jobs 2 -- pinnace --mode rpc "
    "--sandbox workspace-write": "takes ten minutes; test_our_agent.py plays a sample",
    "docs/sandbox.md: PINNACE_TEST_SANDBOX=workspace-write .venv/bin/python -m pytest "
    "tests/agent/{tools,shell,search}": "takes minutes; test_tools_inside.py runs a sample",
    "docs/specification.md: PINNACE_COVERAGE=$PWD/reached .venv/bin/python -m pytest tests/rpc -q": "conftest.py "
    "does so in every run",
    "docs/specification.md: .venv/bin/python -P -m pinnace_spec.coverage reached": "test_coverage.py",
    "docs/telemetry.md: *": "tests/rpc/telemetry",
    "docs/terminal.md: *": "needs a terminal: tests/rpc/tui",
    "spec/scenarios/README.md: *": "test_scenarios.py reads every scenario",
}
"""What no test of this module executes, by `PAGE: FIRST LINE` or `PAGE: *`: the test that covers it, or the reason."""


class Block(NamedTuple):
    """A fenced block of a page."""

    page: str
    section: str
    line: int
    language: str
    text: str

    @property
    def file(self) -> str | None:
        """The name of the file that it is."""
        named = FILE.match(self.text)
        return named[1] if named and self.language not in {"sh", "console", "text"} else None

    @property
    def place(self) -> str:
        """Where it begins."""
        return f"{self.page}:{self.line}"


class Program(NamedTuple):
    """A block that is a program, and the output that the page shows."""

    block: Block
    output: str | None


def blocks(page: str) -> Iterator[Block]:
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    section = ""
    for found in FENCE.finditer(text):
        section = found["section"] or section
        if found["text"] is not None:
            body = re.sub(rf"^{found['indent']}", "", found["text"], flags=re.M)
            yield Block(page, section, text.count("\n", 0, found.start()) + 1, found["language"], body)


BLOCKS: Final = [block for page in PAGES for block in blocks(page)]


def without_comment(line: str) -> str:
    return re.sub(r"\s+# .*", "", line)


def is_elsewhere(page: str, line: str) -> bool:
    return f"{page}: *" in ELSEWHERE or f"{page}: {without_comment(line)}" in ELSEWHERE


def first_line(block: Block) -> str:
    return block.text.partition("\n")[0]


def lines_to_run(block: Block) -> list[str]:
    lines = [line for line in block.text.splitlines() if line and not is_elsewhere(block.page, line)]
    return [line for line in lines if not LONG.match(line)]


def programs() -> list[Program]:
    found: list[Program] = []
    before = None
    for block in BLOCKS:
        if (
            block.language in {"python", "js"}
            and block.file is None
            and not is_elsewhere(block.page, first_line(block))
        ):
            found.append(Program(block, None))
            before = block
        elif (
            block.language == "text"
            and before is not None
            and (before.page, before.section) == (block.page, block.section)
        ):
            found[-1] = found[-1]._replace(output=block.text)
            before = None
        else:
            before = None
    return found


PROGRAMS: Final = programs()
CONSOLES: Final = sorted(
    {
        (block.page, block.section)
        for block in BLOCKS
        if block.language == "console" and not is_elsewhere(block.page, first_line(block))
    }
)
OPTIONS: Final = [
    (block.page, line)
    for block in BLOCKS
    if block.language == "sh"
    for line in block.text.splitlines()
    if LONG.match(line) and not is_elsewhere(block.page, line)
]
SHELLS: Final = [block for block in BLOCKS if block.language == "sh" and lines_to_run(block)]


@pytest.fixture
def programs_folder(tmp_path: Path) -> Path:
    """A folder to be put first on PATH, in which `pinnace` and `python` are those of this checkout."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, words in (
        ("pinnace", "-P -m pinnace_rpc"),
        ("python", ""),
    ):
        (folder / name).write_text(
            f'#!/bin/sh\nPYTHONPATH={quote(PYTHONPATH)} exec {quote(sys.executable)} {words} "$@"\n'
        )
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def env(tmp_path: Path, programs_folder: Path) -> dict[str, str]:
    """The environment of somebody who has installed pinnace and configured nothing."""
    (tmp_path / "home").mkdir()
    return {
        "PATH": f"{programs_folder}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path),
        "LC_ALL": "C.UTF-8",
        "PINNACE_OFFLINE_DELAY_MS": "5",
    }


def write_files(page: str, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for block in BLOCKS:
        if block.page == page and block.file is not None:
            (folder / block.file).write_text(block.text, encoding="utf-8")


def run(words: list[str], folder: Path, env: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words,
        cwd=folder,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@pytest.mark.parametrize(("page", "section"), CONSOLES)
def test_a_console_block_shows_what_its_commands_print(
    page: str, section: str, tmp_path: Path, env: dict[str, str]
) -> None:
    folder = tmp_path / "home" / "tries"
    write_files(page, folder)
    # A repository, so that no folder above it is searched for context files and skills.
    subprocess.run(["git", "init", "-q"], cwd=folder, env=env, check=True)
    for block in BLOCKS:
        if (block.page, block.section, block.language) != (page, section, "console"):
            continue
        for part in re.split(r"^\$ ", block.text, flags=re.M)[1:]:
            command, _, output = part.partition("\n")
            done = run(["sh", "-c", f"{{ {command}\n}} 2>&1"], folder, env)
            shown = done.stdout.replace(str(folder), "~/tries").replace(sys.executable, "python")
            assert output == shown, f"{block.place}: {command}"


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.block.place)
def test_a_program_prints_what_the_page_shows(program: Program, tmp_path: Path, env: dict[str, str]) -> None:
    block = program.block
    words = [str(Path(env["PATH"].partition(os.pathsep)[0]) / "python"), "-c"]
    if block.language == "js":
        node = shutil.which("node")
        if node is None:
            pytest.skip("node is not installed")
        words = [node, "-e"]
    subprocess.run(["git", "init", "-q"], cwd=tmp_path / "home", env=env, check=True)
    done = run([*words, block.text], tmp_path / "home", env)

    assert (0, "") == (done.returncode, done.stderr)
    assert program.output is None or program.output == done.stdout


@pytest.fixture
def home(programs_folder: Path) -> Iterator[PreparedHome]:
    """The home of somebody with a model server, in a project with the files that the pages name."""
    folder = make_short_folder("pages-")  # it has the socket of a host
    picture = BytesIO()
    Image.new("RGB", (2, 2)).save(picture, "PNG")
    with FakeLlm([{"text": "the answer", "repeat": -1}]) as llm:
        settings = {"defaultProvider": "fake", "defaultModel": "m1"}
        prepared = prepare_pi_home(folder, llm.base_url, settings=settings, path_first=programs_folder)
        (prepared.work / "key.txt").write_text("a key of the provider")
        (prepared.work / "photo.png").write_bytes(picture.getvalue())
        write_files("docs/extensions.md", prepared.work)
        (prepared.work / ".venv").symlink_to(programs_folder.parent)
        subprocess.run(["git", "init", "-q"], cwd=prepared.work, env=prepared.env, check=True)
        yield prepared
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize("block", SHELLS, ids=lambda block: block.place)
def test_the_commands_of_a_page_succeed(block: Block, home: PreparedHome) -> None:
    for line in lines_to_run(block):
        done = run(["bash", "-c", line], home.work, home.env)
        assert 0 == done.returncode, f"{block.place}: {line}\n{done.stdout}{done.stderr}"


@cache
def help_of(*program: str) -> str:
    done = run([sys.executable, *program, "--help"], REPOSITORY, {**os.environ, "PYTHONPATH": PYTHONPATH})
    return done.stdout + done.stderr


@pytest.mark.parametrize(("page", "line"), OPTIONS)
def test_a_long_command_has_the_options_that_a_page_shows(page: str, line: str) -> None:
    command = line.partition("#")[0].partition(" -- ")[0]
    name, *words = shlex.split(command)
    if name == "pinnace-conform":
        project = (REPOSITORY / "fuzz" / "pyproject.toml").read_text(encoding="utf-8")
        scripts = tomllib.loads(project)["project"]["scripts"]
        module, _, function = scripts[name].partition(":")
        program = ["-P", "-c", f"from {module} import {function}; {function}()"]
        program.append(words[0] if words and words[0] in SUBCOMMANDS else "judge")
    else:
        program = words[: 3 if words[0] == "-P" else 1]
    shown = help_of(*program)

    assert "usage" in shown.lower()
    assert [] == [option for option in re.findall(r"(?<=\s)--[a-z-]+", command) if option not in shown], shown


def test_every_block_and_command_is_executed_or_has_a_reason() -> None:
    executed = {program.block for program in PROGRAMS}
    outputs = {BLOCKS[BLOCKS.index(program.block) + 1] for program in PROGRAMS if program.output is not None}
    consoles = [block.text for block in BLOCKS if block.language == "console"]
    missing = [
        f"{block.place}: {first_line(block)}"
        for block in BLOCKS
        if block.language not in {"sh", "console", "mermaid"}
        and block not in executed | outputs
        and not (block.file is not None and any(block.file in text for text in consoles))
        and not is_elsewhere(block.page, first_line(block))
    ]

    assert [] == missing


def test_what_runs_elsewhere_is_still_on_its_page() -> None:
    lines = {f"{block.page}: {without_comment(line)}" for block in BLOCKS for line in block.text.splitlines()}
    lines |= {f"{block.page}: *" for block in BLOCKS}

    assert [] == sorted(ELSEWHERE.keys() - lines)
    named = {
        name for reason in ELSEWHERE.values() for name in re.findall(r"\b(?:tests|scripts|\.ci)/[\w/.-]+\w", reason)
    }
    assert [] == sorted(name for name in named if not (REPOSITORY / name).exists())


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_to_a_file(page: str) -> None:
    text = re.sub(r"^ *```.*?^ *```$", "", (REPOSITORY / page).read_text(encoding="utf-8"), flags=re.S | re.M)
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]

    assert [] == [link for link in links if link and not (REPOSITORY / page).parent.joinpath(link).exists()]
