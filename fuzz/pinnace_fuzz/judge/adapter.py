"""Adapters: connect a foreign agent to the tester's model server, and declare its capabilities.

A new folder for each run, without the user's home or environment, and with no address but the tester's own. Scenarios
that need a capability which the adapter does not offer are skipped, with the reason.
"""

import json
import os
import re
import tomllib
from collections.abc import Generator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, Protocol

from pinnace_fuzz.harness.adapters import API_KEY, prepare_pi_home
from pinnace_fuzz.judge.private_host import HostFailed, PrivateHost, private_host
from pinnace_fuzz.judge.scenarios.fields import FieldError, Fields
from pinnace_fuzz.judge.scenarios.scenario import CAPABILITIES, Scenario, SessionKind
from pinnace_fuzz.judge.scenarios.shapes import as_object

Quit = Literal["eof", "signal"]

_FIXED_PROFILE = "the profile of a host's agent is fixed at its start"
_REPORTED_BEFORE = "what the agent has reported before the client attached is not repeated"
# Where a client of a host gets other records, by the beginning of a scenario's id.
_NOT_OVER_ATTACH: Mapping[str, str] = {
    "HEL/first-chooses-": _FIXED_PROFILE,
    "HEL/too-late-to-choose": _FIXED_PROFILE,
    "PRO/hello-before-the-flag": _FIXED_PROFILE,
    "QUE/kept-when-the-process-dies": _REPORTED_BEFORE,
    "SES/killed-with-a-queue": _REPORTED_BEFORE,
}


class AdapterError(ValueError):
    """An adapter is invalid, or does not fit."""


class LaunchOptions(NamedTuple):
    """The files and settings that a scenario needs in the agent's home."""

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


class ToolWords(NamedTuple):
    """What an agent calls a tool of the scenarios."""

    name: str
    renamed: Mapping[str, str]
    """Names of arguments in the scenarios -> its own."""
    added: Mapping[str, Any]
    """Arguments that it wants besides."""


class Adapter(Protocol):
    """A way to connect agents to the tester's model server."""

    name: str
    capabilities: frozenset[str]
    quit: Quit
    asides: Mapping[str, str]
    """Regular expressions of requests to the model that the agent makes for itself -> their answers."""
    is_one_prompt: bool
    """The agent is started with its only prompt, and ends by itself."""

    def not_for(self, scenario: Scenario) -> str:
        """Return why a scenario is not for agents that are reached in this way; empty if it is."""
        ...

    def as_played(self, scenario: Scenario) -> Scenario:
        """Return a scenario that is for such agents as it is played on them."""
        ...

    def begun(self, command: Sequence[str], root: Path) -> "AbstractContextManager[Adapter]":
        """Return the adapter for the cases of one run, with what they share for as long as the context lasts.

        Raises:
            AdapterError: It does not fit the command.
        """
        ...

    def prepare(self, command: Sequence[str], root: Path, base_url: str, launch_options: LaunchOptions) -> Prepared:
        """Lay out a home."""
        ...

    def in_its_words(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an answer of the model with the agent's own names of tools and arguments."""
        ...

    def resume(self, prepared: Prepared, session: Path) -> tuple[str, ...]:
        """Return the command that opens a session file in that home."""
        ...

    def elsewhere(self, prepared: Prepared) -> Sequence[int]:
        """Find the processes of the agent of that home that the started one only leads to."""
        ...

    def dismiss(self, prepared: Prepared) -> None:
        """End the agent of a home whose started process did not end in order."""
        ...


class _StartedAgent:
    """The agent is the process that is started, and cases share nothing. Its tools are those of the scenarios."""

    asides: Mapping[str, str] = MappingProxyType({})
    is_one_prompt = False

    def as_played(self, scenario: Scenario) -> Scenario:
        """Leave it as it is."""
        return scenario

    def in_its_words(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """Leave it as it is."""
        return answer

    def not_for(self, scenario: Scenario) -> str:
        """Each is."""
        return ""

    def begun(self: "Adapter", command: Sequence[str], root: Path) -> "AbstractContextManager[Adapter]":
        """Share nothing."""
        return nullcontext(self)

    def elsewhere(self, prepared: Prepared) -> Sequence[int]:
        """There are none."""
        return ()

    def dismiss(self, prepared: Prepared) -> None:
        """It has ended."""


class PiAdapter(_StartedAgent):
    """For agents that read pi's files: `models.json` and `settings.json` in a folder that a variable names."""

    name = "pi"
    capabilities = frozenset(CAPABILITIES) - {"extensions", "pinnace"}
    quit: Quit = "eof"

    def prepare(self, command: Sequence[str], root: Path, base_url: str, launch_options: LaunchOptions) -> Prepared:
        """Lay out a home with a provider `fake` and its models `m1` and `m2`."""
        home = prepare_pi_home(
            root, base_url, settings=launch_options.settings, has_session=launch_options.session == "new"
        )
        write_files(home.folders, launch_options.files)
        given = _without(command, {"--no-session": 0, "--mode": 1, "--provider": 1, "--model": 1, "--session-dir": 1})
        added = [launch_options.model if each == "m1" else each for each in home.arguments]
        return Prepared((*given, *added, *launch_options.arguments), {**home.env, **launch_options.env}, home.folders)

    def resume(self, prepared: Prepared, session: Path) -> tuple[str, ...]:
        """Add the flag for a session file."""
        return (*prepared.command, "--session", str(session))


class AttachAdapter(_StartedAgent):
    """For `pinnace attach`: as `pi`, with a host of the run's own behind the started process."""

    name = "attach"
    capabilities = PiAdapter.capabilities
    quit: Quit = "eof"

    @contextmanager
    def begun(self, command: Sequence[str], root: Path) -> "Generator[Adapter]":
        """Run the host."""
        if "attach" not in command:
            raise AdapterError(f"the adapter attach is for `pinnace attach`, not for {' '.join(command)}")
        folder = root / "host"
        home = prepare_pi_home(folder, "http://127.0.0.1:9")
        try:
            with private_host(command[: command.index("attach")], home.env, folder) as host:
                yield _HostedAdapter(host)
        except HostFailed as error:
            raise AdapterError(str(error)) from None

    def prepare(self, command: Sequence[str], root: Path, base_url: str, launch_options: LaunchOptions) -> Prepared:
        """Not without a host."""
        raise AdapterError("this adapter prepares homes only while its host runs")

    def resume(self, prepared: Prepared, session: Path) -> tuple[str, ...]:
        """Not without a host."""
        raise AdapterError("this adapter resumes sessions only while its host runs")


class _HostedAdapter(PiAdapter):
    """The adapter `attach` while its host runs."""

    name = "attach"

    def __init__(self, host: PrivateHost) -> None:
        self._host = host

    def not_for(self, scenario: Scenario) -> str:
        """Return by which decision of `docs/durable-agents.md` an attach differs from the agent itself."""
        if "drain" in scenario.arguments:
            return "an attach has no --on-eof drain"
        return next((why for id_, why in _NOT_OVER_ATTACH.items() if scenario.id.startswith(id_)), "")

    def prepare(self, command: Sequence[str], root: Path, base_url: str, launch_options: LaunchOptions) -> Prepared:
        """Lay out a home as for `pi`; a new agent, which ends with its client."""
        given = _without(command, {"--new": 0, "--on-eof": 1, "--no-start": 0})
        prepared = super().prepare((*given, "--no-start", "--on-eof", "end"), root, base_url, launch_options)
        self._host.serve(prepared.folders["agent"])
        return prepared

    def resume(self, prepared: Prepared, session: Path) -> tuple[str, ...]:
        """Attach to the agent of the session, which the host starts again if it was killed."""
        at = prepared.command.index("attach") + 1
        return (*prepared.command[:at], str(session), *prepared.command[at:])

    def elsewhere(self, prepared: Prepared) -> Sequence[int]:
        """Find the agent in the listing of the host."""
        return self._host.processes(prepared.folders["work"])

    def dismiss(self, prepared: Prepared) -> None:
        """Have the host remove it: the client is gone without a word, or the host starts it again."""
        self._host.dismiss(prepared.folders["work"])


class EnvAdapter(_StartedAgent):
    """For agents that take the model's address from the vendors' variables."""

    name = "env"
    capabilities = frozenset({"llm", "tools", "bash"})
    quit: Quit = "eof"

    def prepare(self, command: Sequence[str], root: Path, base_url: str, launch_options: LaunchOptions) -> Prepared:
        """Set base addresses and keys of all vendors; the agent's command selects one."""
        folders = _folders(root)
        variables = {
            "OPENAI_BASE_URL": f"{base_url}/v1",
            "OPENAI_API_BASE": f"{base_url}/v1",
            "OPENAI_API_KEY": API_KEY,
            "ANTHROPIC_BASE_URL": base_url,
            "ANTHROPIC_API_KEY": API_KEY,
        }
        write_files(folders, launch_options.files)
        return Prepared(
            (*command, *launch_options.arguments), {**_environment(folders), **variables, **launch_options.env}, folders
        )

    def resume(self, prepared: Prepared, session: Path) -> tuple[str, ...]:
        """Not offered."""
        raise AdapterError("this adapter opens no session files")


class NoAdapter(EnvAdapter):
    """For agents whose model can't be replaced: cases that need none are judged all the same."""

    name = "none"
    capabilities = frozenset({"bash"})


class FileAdapter(_StartedAgent):
    """An adapter of a TOML file. See `docs/conformance.md` for its fields."""

    def __init__(self, text: str, name: str = "file") -> None:
        """Read it.

        Raises:
            AdapterError: It is invalid.
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
            self.asides = fields.text_map("asides")
            self._tools = {name: _tool_words(each, ("tools", name)) for name, each in fields.mapping("tools").items()}
            for pattern in self.asides:
                re.compile(pattern)
            fields.finish()
        except (tomllib.TOMLDecodeError, FieldError, re.error) as error:
            raise AdapterError(f"{name}: {error}") from None
        if unknown := self.capabilities - CAPABILITIES.keys():
            raise AdapterError(f"{name}: no capabilities: {', '.join(sorted(unknown))}")
        if self._agent_folder.is_absolute() or ".." in self._agent_folder.parts:
            raise AdapterError(f"{name}: agent_folder: {self._agent_folder} is outside of the home")

    def prepare(self, command: Sequence[str], root: Path, base_url: str, launch_options: LaunchOptions) -> Prepared:
        """Write the files, fill the variables."""
        folders = _folders(root)
        folders["agent"] = root.resolve() / self._agent_folder
        folders["agent"].mkdir(parents=True, exist_ok=True)
        holes = {
            "base_url": base_url,
            "key": API_KEY,
            "model": self._models.get(launch_options.model, launch_options.model),
        }
        holes |= {name: str(path) for name, path in folders.items()}

        def filled(text: str) -> str:
            for name, value in holes.items():
                text = text.replace(f"${{{name}}}", value)
            return text

        write_files(folders, {name: filled(text) for name, text in self._files.items()})
        if self._settings_file:
            settings = {**self._settings, **launch_options.settings}
            write_files(folders, {self._settings_file: json.dumps(settings, indent=2)})
        write_files(folders, launch_options.files)
        session = self._session if launch_options.session == "new" else self._no_session
        arguments = [filled(each) for each in (*self._arguments, *session)]
        variables = {name: filled(value) for name, value in self._variables.items()}
        env = {**_environment(folders), **variables, **launch_options.env}
        return Prepared((*command, *arguments, *launch_options.arguments), env, folders)

    def in_its_words(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an answer of the model with the agent's own names of tools and arguments."""
        calls = answer.get("tool_calls")
        if not self._tools or not calls:
            return answer
        return {**answer, "tool_calls": [self._call(each) for each in calls]}

    def _call(self, call: Mapping[str, Any]) -> Mapping[str, Any]:
        words = self._tools.get(call["name"])
        if words is None:
            return call
        arguments = as_object(call.get("args"))
        if arguments is None:  # a scenario's text that is not what the tool takes
            return {**call, "name": words.name}
        renamed = {words.renamed.get(name, name): value for name, value in arguments.items()}
        return {**call, "name": words.name, "args": {**words.added, **renamed}}

    def resume(self, prepared: Prepared, session: Path) -> tuple[str, ...]:
        """Add the arguments for a session file."""
        if not self._resume:
            raise AdapterError(f"{self.name}: no resume_arguments")
        return (*prepared.command, *(each.replace("${session}", str(session)) for each in self._resume))


def _tool_words(value: Any, path: tuple[str, ...]) -> ToolWords:
    fields = Fields(value, path)
    found = ToolWords(fields.needed("name"), fields.text_map("renamed"), fields.mapping("added"))
    fields.finish()
    return found


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
