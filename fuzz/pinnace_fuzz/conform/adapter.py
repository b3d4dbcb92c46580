"""Adapters: how a foreign binary is pointed at the kit's model, and what it can do.

A new folder for each run; nothing of the user's home or environment gets in, and no address but the kit's own. What an
adapter does not offer is not tried: scenarios that need it are left out, with the reason.
"""

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from pinnace_fuzz.adapters import API_KEY, prepare_pi_home
from pinnace_fuzz.conform.fields import FieldError, Fields
from pinnace_fuzz.conform.scenario import CAPABILITIES, SessionKind

Quit = Literal["eof", "signal"]

# Of agents that need more than `pi` or `env` says; a name of one is its adapter's.
_SHIPPED = Path(__file__).parent / "adapters"


class AdapterError(ValueError):
    """An adapter is wrong, or does not fit."""


class Wishes(NamedTuple):
    """What a scenario wants of the agent's home."""

    session: SessionKind = "none"
    settings: Mapping[str, Any] = {}
    files: Mapping[str, str] = {}
    model: str = "m1"
    arguments: Sequence[str] = ()
    env: Mapping[str, str] = {}


class Prepared(NamedTuple):
    """A home that is ready, and the command to start there."""

    command: tuple[str, ...]
    env: Mapping[str, str]
    folders: Mapping[str, Path]
    """`work`, `agent`, `home`, `sessions`, `temp`."""


class Adapter(Protocol):
    """One way to point agents at the kit's model."""

    name: str
    capabilities: frozenset[str]
    quit: Quit

    def prepare(self, command: Sequence[str], root: Path, base_url: str, wishes: Wishes) -> Prepared:
        """Lay out a home."""
        ...

    def resume(self, prepared: Prepared, session: Path) -> tuple[str, ...]:
        """Return the command that opens a session file in that home."""
        ...


class PiAdapter:
    """For agents that read pi's files: `models.json` and `settings.json` in a folder that a variable names."""

    name = "pi"
    capabilities = frozenset(CAPABILITIES) - {"extensions", "pinnace"}
    quit: Quit = "eof"

    def prepare(self, command: Sequence[str], root: Path, base_url: str, wishes: Wishes) -> Prepared:
        """Lay out a home with a provider `fake` and its models `m1` and `m2`."""
        home = prepare_pi_home(root, base_url, settings=wishes.settings, has_session=wishes.session == "new")
        folders = {
            "work": home.work,
            "agent": home.agent_dir,
            "home": home.home,
            "sessions": home.sessions,
            "temp": home.temp,
        }
        write_files(folders, wishes.files)
        given = _without(command, {"--no-session": 0, "--mode": 1, "--provider": 1, "--model": 1, "--session-dir": 1})
        added = [wishes.model if each == "m1" else each for each in home.arguments]
        return Prepared((*given, *added, *wishes.arguments), {**home.env, **wishes.env}, folders)

    def resume(self, prepared: Prepared, session: Path) -> tuple[str, ...]:
        """Add the flag for a session file."""
        return (*prepared.command, "--session", str(session))


class EnvAdapter:
    """For agents that take the model's address from the vendors' variables."""

    name = "env"
    capabilities = frozenset({"llm", "tools", "bash"})
    quit: Quit = "eof"

    def prepare(self, command: Sequence[str], root: Path, base_url: str, wishes: Wishes) -> Prepared:
        """Set base addresses and keys; the command says which vendor's."""
        folders = _folders(root)
        variables = {
            "OPENAI_BASE_URL": f"{base_url}/v1",
            "OPENAI_API_BASE": f"{base_url}/v1",
            "OPENAI_API_KEY": API_KEY,
            "ANTHROPIC_BASE_URL": base_url,
            "ANTHROPIC_API_KEY": API_KEY,
        }
        write_files(folders, wishes.files)
        return Prepared((*command, *wishes.arguments), {**_environment(folders), **variables, **wishes.env}, folders)

    def resume(self, prepared: Prepared, session: Path) -> tuple[str, ...]:
        """Not offered."""
        raise AdapterError("this adapter opens no session files")


class NoAdapter(EnvAdapter):
    """For agents whose model nobody can replace: what needs none is judged all the same."""

    name = "none"
    capabilities = frozenset({"bash"})


class FileAdapter:
    """What a TOML file says. See `docs/conform.md` for its fields."""

    def __init__(self, text: str, name: str = "file") -> None:
        """Read it.

        Raises:
            AdapterError: It is wrong.
        """
        try:
            fields = Fields(tomllib.loads(text), ())
            self.name = fields.text("name", name)
            self.capabilities = frozenset(fields.texts("capabilities"))
            self.quit: Quit = fields.word("quit", ("eof", "signal"), "eof")
            self._arguments = fields.texts("arguments")
            self._session = fields.texts("session_arguments")
            self._no_session = fields.texts("no_session_arguments")
            self._resume = fields.texts("resume_arguments")
            self._models = fields.text_map("models")
            self._agent_folder = Path(fields.text("agent_folder", "agent"))
            self._settings_file = fields.text("settings_file")
            self._settings = fields.mapping("settings")
            self._files = fields.text_map("files")
            self._variables = fields.text_map("variables")
            fields.finish()
        except (tomllib.TOMLDecodeError, FieldError) as error:
            raise AdapterError(f"{name}: {error}") from None
        if unknown := self.capabilities - CAPABILITIES.keys():
            raise AdapterError(f"{name}: no capabilities: {', '.join(sorted(unknown))}")
        if self._agent_folder.is_absolute() or ".." in self._agent_folder.parts:
            raise AdapterError(f"{name}: agent_folder: {self._agent_folder} is outside of the home")

    def prepare(self, command: Sequence[str], root: Path, base_url: str, wishes: Wishes) -> Prepared:
        """Write the files, fill the variables."""
        folders = _folders(root)
        folders["agent"] = root.resolve() / self._agent_folder
        folders["agent"].mkdir(parents=True, exist_ok=True)
        holes = {"base_url": base_url, "key": API_KEY, "model": self._models.get(wishes.model, wishes.model)}
        holes |= {name: str(path) for name, path in folders.items()}

        def filled(text: str) -> str:
            for name, value in holes.items():
                text = text.replace(f"${{{name}}}", value)
            return text

        write_files(folders, {name: filled(text) for name, text in self._files.items()})
        if self._settings_file:
            settings = {**self._settings, **wishes.settings}
            write_files(folders, {self._settings_file: json.dumps(settings, indent=2)})
        write_files(folders, wishes.files)
        session = self._session if wishes.session == "new" else self._no_session
        arguments = [filled(each) for each in (*self._arguments, *session)]
        variables = {name: filled(value) for name, value in self._variables.items()}
        env = {**_environment(folders), **variables, **wishes.env}
        return Prepared((*command, *arguments, *wishes.arguments), env, folders)

    def resume(self, prepared: Prepared, session: Path) -> tuple[str, ...]:
        """Add the arguments for a session file."""
        if not self._resume:
            raise AdapterError(f"{self.name}: no resume_arguments")
        return (*prepared.command, *(each.replace("${session}", str(session)) for each in self._resume))


def adapter(name: str) -> Adapter:
    """Return an adapter: `pi`, `env`, `none`, one of those that come with the kit, or what a file says.

    Raises:
        AdapterError: There is none.
    """
    known: Mapping[str, type[PiAdapter | EnvAdapter]] = {"pi": PiAdapter, "env": EnvAdapter, "none": NoAdapter}
    if name in known:
        return known[name]()
    shipped = {path.stem: path for path in sorted(_SHIPPED.glob("*.toml"))}
    path = shipped.get(name, Path(name))
    try:
        return FileAdapter(path.read_text(encoding="utf-8"), path.stem)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no UTF-8"
        raise AdapterError(f"{name} is none of {', '.join([*known, *shipped])} and no file: {why}") from None


def write_files(folders: Mapping[str, Path], files: Mapping[str, str]) -> None:
    """Write files; a name begins with one of the folders, or is below `work`."""
    for name, text in files.items():
        path = place(folders, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        if text.startswith("#!"):
            path.chmod(0o755)


def place(folders: Mapping[str, Path], name: str) -> Path:
    """Return where a file of a scenario is."""
    first, slash, rest = name.partition("/")
    path = folders[first] / rest if slash and first in folders else folders["work"] / name
    if ".." in path.parts or not any(path.is_relative_to(each) for each in folders.values()):
        raise AdapterError(f"{name} is outside of the home")
    return path


def _folders(root: Path) -> dict[str, Path]:
    folders = {name: root.resolve() / name for name in ("work", "agent", "home", "sessions", "temp")}
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    return folders


def _environment(folders: Mapping[str, Path]) -> dict[str, str]:
    return {
        "PATH": os.environ.get("PATH", os.defpath),
        "HOME": str(folders["home"]),
        "TMPDIR": str(folders["temp"]),
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
        "NO_COLOR": "1",
    }


def _without(command: Sequence[str], flags: Mapping[str, int]) -> list[str]:
    """Leave out flags, with as many values as each has, that the adapter sets itself."""
    kept: list[str] = []
    skipped = 0
    for each in command:
        if skipped:
            skipped -= 1
        elif each in flags:
            skipped = flags[each]
        else:
            kept.append(each)
    return kept
