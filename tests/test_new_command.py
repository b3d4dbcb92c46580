"""A command is added in the five places of CONTRIBUTING.md and no others: here a read, in a copy of the sources.

What a newcomer would write by hand is the text below; everything else follows from the commands that the page names.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from tests.source_tree import PYTHONPATH

ROOT: Final = Path(__file__).resolve().parent.parent
RULE: Final = """
[R-ORD-99]
level = "MUST"
origin = "ours"
text = "`get_place` MUST name the working folder, on request in capital letters."
generations = ["pi"]
witness = ["STA/the-place"]
"""
DECLARATION: Final = '''class GetPlace(CommandModel):
    """Read where the agent works."""

    since = None
    group = "Queries"
    kind = "read"
    errors = _WAITS
    answer = "Place"
    type: Literal["get_place"]
    inCapitals: StrictBool = False
    """Whether to write it in capital letters."""


'''
ANSWER: Final = '''class Place(OutputModel):
    """Where the agent works."""

    folder: NonEmpty
    """The working folder."""


'''
HANDLER: Final = '''def get_place(read: Read) -> Data:
    """Where the agent works."""
    command: cmd.GetPlace = read.command
    folder = read.agent.session.cwd
    return {"folder": folder.upper() if command.inCapitals else folder}


'''
SCENARIO: Final = """id: STA/the-place
title: The working folder is named, on request in capital letters.
rules: [R-ORD-99]
since: pi
needs: [pinnace]
client:
  - ask: {id: a, type: get_place}
    gives: {data: {folder: "${work}"}}
  - ask: {id: b, type: get_place, inCapitals: true}
    gives: {success: true}
  - ask: {id: c, type: get_place, inCapitals: 1}
    gives: {success: false, error: "Invalid get_place command: inCapitals must be true or false"}
cell: {state: idle, command: get_place}
"""
CLIENT: Final = """
import sys
from pinnace_rpc.client import BlockingClient
with BlockingClient([*sys.argv[1:], "--mode", "rpc", "--no-session"]) as client:
    print(client.get_place(in_capitals=True)["folder"])
"""
STATES: Final = """
from pinnace_fuzz.judge.coverage import state_names
from pinnace_fuzz.judge.scenarios.files import load
reached = {cell.state for each in load() for cell in each.cells if cell.command == "get_place"}
print(sorted(set(state_names()) - reached))
"""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what is written by hand or generated, with the new command in it."""
    root = tmp_path_factory.mktemp("copy")
    for folder in ("spec", "rpc"):
        shutil.copytree(ROOT / folder, root / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (root / "docs").mkdir()
    for page in ("specification.md", "rpc-reference.md"):
        shutil.copy(ROOT / "docs" / page, root / "docs")
    rules = root / "spec/rules.toml"
    rules.write_text(rules.read_text(encoding="utf-8") + RULE, encoding="utf-8")
    put_before(root / "spec/pinnace_spec/records/commands.py", "class GetAvailableModels(", DECLARATION)
    put_before(root / "spec/pinnace_spec/records/readings.py", "class SessionInfo(", ANSWER)
    put_before(root / "rpc/pinnace_rpc/server/queries.py", "def shown_model(", HANDLER)
    put_before(root / "rpc/pinnace_rpc/server/queries.py", "        get_queue,\n", "        get_place,\n")
    (root / "spec/scenarios/place.yaml").write_text(SCENARIO, encoding="utf-8")
    run(root, "-m", "pinnace_spec.generate")
    run(root, "-P", "-m", "pinnace_campaigns.examples", "spec/examples", "commands/get_place", "--", *agent(root))
    run(root, "-m", "pinnace_spec.generate")
    return root


def put_before(path: Path, mark: str, text: str) -> None:
    before, found, after = path.read_text(encoding="utf-8").partition(mark)
    assert found
    assert mark not in after
    path.write_text(before + text + mark + after, encoding="utf-8")


def agent(root: Path) -> tuple[str, ...]:
    """The agent of the copy; one under test gets a clean environment."""
    roots = [*(str(root / name) for name in ("spec", "rpc")), *PYTHONPATH.split(os.pathsep)]
    program = f"import sys; sys.path[:0] = {roots!r}; from pinnace_rpc.cli.main import main; sys.exit(main())"
    return sys.executable, "-P", "-c", program


def run(root: Path, *arguments: str) -> str:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*(str(root / name) for name in ("spec", "rpc")), PYTHONPATH])}
    command: Sequence[str] = [sys.executable, *arguments]
    done = subprocess.run(command, cwd=root, env=env, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_everything_that_is_generated_is_fresh(copy: Path) -> None:
    run(copy, "-m", "pinnace_spec.generate", "--check")


def test_the_typed_client_asks_for_it(copy: Path) -> None:
    assert str(copy).upper() == run(copy, "-P", "-c", CLIENT, *agent(copy)).strip()


def test_it_is_on_the_pages_and_in_the_schemas(copy: Path) -> None:
    schema = json.loads((copy / "spec/schema/pi.json").read_text(encoding="utf-8"))["$defs"]
    assert (
        "Whether to write it in capital letters."
        == (schema["GetPlaceCommand"]["properties"]["inCapitals"]["description"])
    )
    assert "GetPlaceResponse" in schema
    for page in ("docs/rpc-reference.md", "spec/matrix.md", "spec/asyncapi.yaml", "spec/typescript/protocol.ts"):
        assert "get_place" in (copy / page).read_text(encoding="utf-8"), page
    assert "R-ORD-99" in (copy / "spec/reference.md").read_text(encoding="utf-8")


def test_its_example_is_recorded(copy: Path) -> None:
    lines = (copy / "spec/examples/commands/get_place.jsonl").read_text(encoding="utf-8").splitlines()

    assert {"folder": "/srv/project"} == json.loads(lines[-1])["record"]["data"]


def test_it_is_judged_in_every_state(copy: Path) -> None:
    judge = "import sys; from pinnace_fuzz.judge.cli import main; sys.exit(main())"
    only = ("--only", "STA/the-place", "--only", "CEL/tools-and-lists-llm", "--campaign", "none", "--seed", "1")
    said = run(copy, "-P", "-c", judge, "judge", *only, "--", *agent(copy), "--mode", "rpc")

    assert "2 PASS" in said
    assert "[]" == run(copy, "-P", "-c", STATES).strip()
