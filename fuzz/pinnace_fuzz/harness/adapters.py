"""Points an agent at a fake LLM: the temporary home, the files, the environment, the arguments.

One function for each family of agents. A new folder for each run; nothing of the user's own home or
environment gets in, and no address but the fake LLM's is configured.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypedDict, Unpack

# Literal and recognisable, so that a test can search every output for it.
API_KEY = "sk-fake"


class PreparedHome(NamedTuple):
    """The home of one agent, and the command to start it there."""

    root: Path
    """Holds all the others."""
    home: Path
    agent_dir: Path
    """Its own configuration: `models.json`, `settings.json`."""
    work: Path
    """The folder it works in."""
    temp: Path
    sessions: Path
    """For session files, if the arguments name it."""
    env: Mapping[str, str]
    """The whole environment."""
    arguments: Sequence[str]
    """What to add to the agent's command."""

    @property
    def folders(self) -> Mapping[str, Path]:
        """Its folders by the names that scenarios give them."""
        return {
            "work": self.work,
            "agent": self.agent_dir,
            "home": self.home,
            "sessions": self.sessions,
            "temp": self.temp,
        }


def pi_models(base_url: str) -> dict[str, object]:
    """Write `models.json` of pi-like agents: provider `fake`, `m1` without reasoning, `m2` with it."""
    cost = {"input": 1, "output": 2, "cacheRead": 0.1, "cacheWrite": 1.25}
    shared = {"maxTokens": 4096, "cost": cost}
    without = {"id": "m1", "name": "Fake One", "reasoning": False, "input": ["text", "image"]}
    reasoning = {"id": "m2", "name": "Fake Two", "reasoning": True, "input": ["text"]}
    models = [
        {**without, "contextWindow": 128_000, **shared},
        {**reasoning, "contextWindow": 64_000, **shared},
    ]
    provider = {"baseUrl": f"{base_url}/v1", "api": "openai-completions", "apiKey": API_KEY, "models": models}
    return {"providers": {"fake": provider}}


class HomeOptions(TypedDict, total=False):
    """The settings of a home that a test may change."""

    models: Mapping[str, object]
    """Another `models.json` than that of `pi_models`."""
    settings: Mapping[str, object]
    """`settings.json`; empty by default."""
    env: Mapping[str, str]
    """More variables, or other values."""
    path_first: Path
    """A folder to be first on PATH."""
    has_session: bool
    """Keep session files in `sessions`, where by default none are written."""
    files: Mapping[str, object]
    """More files of the agent's folder: their values, as JSON, by name."""
    names_model: bool
    """Name the fake model on the command line, as by default; else the agent chooses its model by itself."""


def prepare_pi_home(root: Path, base_url: str, **options: Unpack[HomeOptions]) -> PreparedHome:
    """Lay out a home, in a folder of its own, for an agent that reads pi's files."""
    root = root.resolve()
    folders = {name: root / name for name in ("home", "agent", "work", "tmp", "sessions")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    written = {
        "models.json": options.get("models") or pi_models(base_url),
        "settings.json": options.get("settings", {}),
        **options.get("files", {}),
    }
    for name, value in written.items():
        (folders["agent"] / name).write_text(json.dumps(value, indent=2), encoding="utf-8")
    search = [str(options["path_first"])] if "path_first" in options else []
    search.append(os.environ.get("PATH", os.defpath))
    environment = {
        "PATH": os.pathsep.join(search),
        "HOME": str(folders["home"]),
        "TMPDIR": str(folders["tmp"]),
        "PI_CODING_AGENT_DIR": str(folders["agent"]),
        "PI_OFFLINE": "1",
        "PI_SKIP_VERSION_CHECK": "1",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
        "NO_COLOR": "1",
        **options.get("env", {}),
    }
    session = ["--session-dir", str(folders["sessions"])] if options.get("has_session") else ["--no-session"]
    model = ["--provider", "fake", "--model", "m1"] if options.get("names_model", True) else []
    arguments = ["--mode", "rpc", *session, *model]
    return PreparedHome(
        root=root,
        home=folders["home"],
        agent_dir=folders["agent"],
        work=folders["work"],
        temp=folders["tmp"],
        sessions=folders["sessions"],
        env=environment,
        arguments=arguments,
    )
