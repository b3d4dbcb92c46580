"""docs/extensions.md: what it shows is what happens, and it names everything that there is."""

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

import pinnace.extensions as facade
from pinnace_agent.extensions.contexts import CommandContext, Context, ToolContext
from pinnace_agent.extensions.events import EVENTS
from pinnace_agent.extensions.user_interface import UserInterface

REPOSITORY = Path(__file__).parents[3]
PAGE = REPOSITORY / "docs" / "extensions.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROOTS = os.pathsep.join(str(REPOSITORY / name) for name in ("spec", "statechart", "agent", "rpc", "fuzz"))
TIMEOUT_S = 60.0


class Block(NamedTuple):
    """One block of the page: a file, or commands with what they print."""

    section: str
    language: str
    text: str


class Step(NamedTuple):
    """A command, and what it prints."""

    command: str
    output: str


def blocks() -> Iterator[Block]:
    section = ""
    for heading, language, text in re.findall(r"^(?:## ([^\n]*)|```(\w+)\n(.*?)^```)$", TEXT, re.DOTALL | re.MULTILINE):
        section = heading or section
        if language:
            yield Block(section, language, text)


BLOCKS = list(blocks())
SECTIONS = list(dict.fromkeys(block.section for block in BLOCKS if block.language == "console"))


def files() -> dict[str, str]:
    """The files of the page by the names in their first lines."""
    return {
        block.text.split("\n", 1)[0].removeprefix("# "): block.text for block in BLOCKS if block.language != "console"
    }


def steps(section: str) -> list[Step]:
    found: list[Step] = []
    for block in BLOCKS:
        if block.section == section and block.language == "console":
            for part in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                found.append(Step(command, output))
    return found


@pytest.fixture
def tries(tmp_path: Path) -> Path:
    """A folder with the files of the page."""
    folder = tmp_path / "home" / "tries"
    folder.mkdir(parents=True)
    for name, text in files().items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """An environment in which `pinnace` is this checkout."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, words in (("pinnace", f'{sys.executable} -P -m pinnace_rpc "$@"'), ("python", f'{sys.executable} "$@"')):
        (programs / name).write_text(f"#!/bin/sh\nPYTHONPATH={ROOTS} exec {words}\n")
        (programs / name).chmod(0o755)
    return {
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path),
        "LC_ALL": "C.UTF-8",
        "PINNACE_OFFLINE_DELAY_MS": "5",
    }


@pytest.mark.parametrize("section", SECTIONS)
def test_what_the_page_shows_is_what_happens(tries: Path, env: dict[str, str], section: str) -> None:
    for command, output in steps(section):
        done = subprocess.run(
            ["sh", "-c", f"{{ {command}\n}} 2>&1"],
            cwd=tries,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        shown = done.stdout.replace(str(tries), "~/tries").replace(sys.executable, "python")
        assert output == shown, command


def test_every_file_of_the_page_is_tried() -> None:
    commands = "\n".join(step.command for section in SECTIONS for step in steps(section))

    assert [] == [name for name in files() if name not in commands]


def test_every_link_leads_somewhere() -> None:
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)]+)\)", TEXT) if "://" not in link]

    assert [] == [link for link in links if not (PAGE.parent / link).exists()]


def named(text: str) -> set[str]:
    """What stands between backticks, taken apart into names."""
    return {word for code in re.findall(r"`([^`]+)`", text) for word in re.findall(r"\w+", code)}


NAMED = named(re.sub(r"^```.*?^```$", "", TEXT, flags=re.DOTALL | re.MULTILINE))


def test_every_event_is_in_the_table() -> None:
    assert [] == sorted(EVENTS.keys() - NAMED)


@pytest.mark.parametrize("of", [facade.ExtensionAPI, Context, ToolContext, CommandContext, UserInterface])
def test_every_member_is_named(of: type) -> None:
    members = {name for name, _ in inspect.getmembers(of) if not name.startswith("_")} - {"bind"}

    assert [] == sorted(members - NAMED)


def test_every_import_is_named() -> None:
    assert [] == sorted(set(facade.__all__) - NAMED)


def test_every_example_is_listed() -> None:
    examples = {
        path.name for path in (REPOSITORY / "examples" / "extensions").iterdir() if not path.name.startswith("__")
    }

    assert [] == sorted(name for name in examples if f"extensions/{name})" not in TEXT)
