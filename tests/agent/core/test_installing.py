"""What error texts say about a missing extra: a command line of the installation that runs."""

import shlex
import sys
import tomllib
from pathlib import Path

import pytest
from tests.source_tree import REPOSITORY

from pinnace_agent.core import installing
from pinnace_agent.core.installing import command_for, how_to_install

EXTRAS = ("bedrock", "dask", "images", "mcp", "otel", "ray", "tui", "vertex")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    folder = tmp_path / "a checkout"
    (folder / "scripts").mkdir(parents=True)
    (folder / "scripts" / "setup").touch()
    return folder


def test_a_checkout_names_its_script_which_leaves_the_editable_installation(checkout: Path) -> None:
    command = command_for("tui", checkout, str(checkout / ".venv" / "bin" / "python"), ["textual>=8"])

    assert [str(checkout / "scripts" / "setup"), "--with", "tui"] == shlex.split(command)


def test_elsewhere_the_interpreter_that_runs_installs_the_packages_of_the_extra(checkout: Path) -> None:
    """A checkout in another environment than its own, too: the packages alone replace nothing."""
    python = str(checkout / "other" / "python")

    wanted = [python, "-m", "pip", "install", "textual>=8", "b<3"]
    assert wanted == shlex.split(command_for("tui", checkout, python, ["textual>=8", "b<3"]))


def test_an_environment_without_pip_names_uv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(installing, "find_spec", lambda name: None)

    assert "uv pip install --python /x/python mcp" == command_for("mcp", tmp_path, "/x/python", ["mcp"])


@pytest.mark.parametrize("extra", EXTRAS)
def test_the_packages_are_those_that_the_distribution_declares(extra: str, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    monkeypatch.setattr(sys, "executable", "/elsewhere/python")
    named = shlex.split(how_to_install(extra))[4:]

    assert sorted(map(_parts, declared["optional-dependencies"][extra])) == sorted(map(_parts, named))


def _parts(requirement: str) -> tuple[str, frozenset[str]]:
    name = requirement.split("<", maxsplit=1)[0].split(">", maxsplit=1)[0]
    return name, frozenset(requirement[len(name) :].split(","))
