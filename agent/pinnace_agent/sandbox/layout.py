"""What is where inside a sandbox: the policy and the disk of this moment, resolved for a mechanism.

Reads the disk, changes nothing. It is read before each command, since files appear: a key that was not there at the
start is hidden from the next command. What can't be protected (a `.git` that is a link) is an error, never left out.
Blocking.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Final, NamedTuple

from pinnace_agent.core.ports.confinement import Access
from pinnace_agent.files.places_of_keys import HISTORIES, KEPT_WHOLE, keys_at_home
from pinnace_agent.files.protected import is_inside
from pinnace_agent.sandbox.bubblewrap import HiddenFolder, Layout
from pinnace_agent.sandbox.policy import SandboxPolicy, folder_refusal, refused_place
from pinnace_agent.sandbox.protections import Protections
from pinnace_agent.sandbox.repositories import Unprotectable

SECRETS_AT_HOME: Final = (*keys_at_home(), *KEPT_WHOLE, *HISTORIES)
"""Below the home folder: keys, passwords, and histories, which hold some."""

_SECRETS_OF_SYSTEM: Final = (
    "/etc/shadow",
    "/etc/shadow-",
    "/etc/gshadow",
    "/etc/gshadow-",
    "/etc/sudoers",
    "/etc/sudoers.d",
)
_SSH: Final = "/etc/ssh"

_SHOWN_OF_AGENT: Final = ("skills", "prompts", "extensions")
_SESSIONS: Final = "sessions"
_USUAL_AGENT_DIR: Final = ".pi/agent"
SESSION_VARIABLE: Final = "PI_SESSION_FILE"
"""The variable in which a command learns the file of its session."""

# Replaced by folders of the sandbox.
_REPLACED: Final = ("/tmp", "/var/tmp", "/run", "/dev", "/proc")
_RESOLVER: Final = "/etc/resolv.conf"
_SOCKETS: Final = "/proc/net/unix"


class SandboxPlaces(NamedTuple):
    """Where a process and its user have their files. All paths are resolved."""

    folder: str
    """The folder that the agent works in."""
    home: str
    agent_dir: str
    session_dirs: tuple[str, ...] = ()
    """The folders of the session files of this process; in the agent folder they are hidden with it."""
    code: tuple[str, ...] = ()
    """What this process loads code from: its environment, its packages, extensions of the command line."""
    runtime: tuple[str, ...] = ()
    """What programs of this process inside the sandbox are run from: the interpreter, its libraries, our packages."""
    outputs: tuple[str, ...] = ()
    """Folders of long outputs; they may be missing."""
    keys: tuple[str, ...] = ()
    """Further places of keys, which variables of the environment name."""
    account_home: str | None = None
    """The home folder of the user's account, where it is another one: programs such as ssh use it whatever HOME is."""


def layout_of(  # each is another fact
    policy: SandboxPolicy,
    places: SandboxPlaces,
    *,
    program: str,
    private: str,
    disables_namespaces: bool,
    access: Access = "policy",
    session_file: str | None = None,
    protections: Protections | None = None,
) -> Layout:
    """Resolve the policy on the disk.

    Args:
        policy: What is allowed.
        places: The folders.
        program: The path of bubblewrap.
        private: The folder that is `/tmp` inside.
        disables_namespaces: Whether this bubblewrap has `--disable-userns`.
        access: Whether the command writes as the policy says, or nothing.
        session_file: The file of the current session, which is shown; its folder is hidden.
        protections: What is protected as long as this process lives; None: what is there now.

    Raises:
        Unprotectable: A path can't be protected, or a path of the settings does not exist.
    """
    is_writable = policy.mode == "workspace-write" and access != "read-only"
    writable = tuple(map(_unchanged, policy.writable)) if is_writable else ()
    roots = (places.folder, *filter(os.path.isdir, writable)) if is_writable else ()
    readable = tuple(os.path.realpath(each) for each in policy.readable)
    if missing := [each for each in readable if not os.path.exists(each)]:
        raise Unprotectable(f"sandbox.readable: {missing[0]} does not exist")
    runtime = tuple(each for each in places.runtime if not is_inside(each, places.folder))
    shown_again = tuple(dict.fromkeys(each for each in (*readable, *runtime) if _is_replaced(each)))
    view = _view(places, writable, shown_again)
    folders, files = _hidden(policy, places, readable, view, session_file, (os.path.dirname(private),))
    for root in roots:
        _refuse_code(root, places)
    new_repository_in = places.folder if policy.new_repository else None
    found = (protections or Protections()).find(roots, writable, new_repository_in=new_repository_in)
    protected = (*found.protected, *chain.from_iterable(_own_of(root, places) for root in roots))
    protected = tuple(each for each in protected if each not in roots)
    agent_dir = _agent_dir(places, session_file, readable) if view.has(places.agent_dir) else None
    if agent_dir is not None and any(is_inside(agent_dir.path, each.path) for each in folders):
        agent_dir = None
    _refuse_hidden_runtime(places, folders if agent_dir is None else (*folders, agent_dir))
    hidden_paths = [each.path for each in folders] + ([agent_dir.path] if agent_dir is not None else [])
    # A folder above a mount point can be renamed, and everything made anew in its place, unless it is one, too.
    kept = (*protected, *found.absent, *found.absent_files, *hidden_paths, *files, *roots, *readable, *found.pinned)
    shown_sockets = [each for each in sockets() if view.has(each) and not _is_in_any(each, hidden_paths)]
    above = _Above(protected, (places.folder, *writable))
    return Layout(
        program=program,
        folder=places.folder,
        private=private,
        is_writable=is_writable,
        has_network=policy.network,
        disables_namespaces=disables_namespaces,
        writable=writable,
        readable=shown_again,
        resolver=_resolver() if policy.network else None,
        outputs=tuple(filter(_is_own_folder, places.outputs)),
        hidden_folders=folders,
        hidden_files=files,
        agent_dir=agent_dir,
        pinned=tuple(each for each in sorted({*found.pinned, *_between(roots, kept)}) if above.can_write(each)),
        protected=tuple(each for each in dict.fromkeys(protected) if not _is_in_any(each, hidden_paths)),
        absent=tuple(each for each in found.absent if above.can_write(each) and not _is_in_any(each, hidden_paths)),
        forbidden=found.forbidden,
        masked=(*filter(above.can_write, found.absent_files), *shown_sockets),
    )


def is_shown(policy: SandboxPolicy, places: SandboxPlaces, path: str) -> bool:
    """Return whether an absolute path is in no folder that the sandbox replaces by one of its own."""
    return _view(places, policy.writable, (*map(os.path.realpath, policy.readable), *places.runtime)).has(path)


def check_places(policy: SandboxPolicy, places: SandboxPlaces) -> None:
    """Check what the user's settings name, once at the start.

    Raises:
        Unprotectable: A folder that is to be writable holds what must not be, or a path that is shown again is a part
            of the agent folder.
    """
    refusal = folder_refusal(policy.mode, places.folder, places.home, places.agent_dir)
    if refusal is not None:
        raise Unprotectable(refusal)
    if policy.mode == "workspace-write" and places.folder in places.session_dirs:
        raise Unprotectable(
            f"{places.folder} can't be made writable: it holds session files, which no command may change: keep them "
            "in another folder (--session-dir), or use --sandbox read-only"
        )
    for each in policy.writable:
        real = _real(each, "sandbox.writable")
        if (place := refused_place(real, places.home, places.agent_dir)) is not None:
            raise Unprotectable(f"sandbox.writable: {each} is {place}, which is never made writable")
        if _is_replaced(real) and real in _REPLACED:
            raise Unprotectable(f"sandbox.writable: {each} is a folder of the sandbox's own: name a folder in it")
    for each in policy.readable:
        if is_inside(os.path.realpath(each), places.agent_dir):
            raise Unprotectable(f"sandbox.readable: {each} is in the agent folder, which stays hidden")
    if policy.mode == "workspace-write":
        for root in (places.folder, *map(os.path.realpath, policy.writable)):
            _refuse_code(root, places)


def _refuse_code(root: str, places: SandboxPlaces) -> None:
    for code in places.code:
        if is_inside(root, code):
            raise Unprotectable(
                f"{root} can't be made writable: pinnace itself runs from {code}, as do extensions: choose another "
                "folder, or use --sandbox read-only"
            )


def _refuse_hidden_runtime(places: SandboxPlaces, hidden: Iterable[HiddenFolder]) -> None:
    """Refuse a sandbox in which no file tool could run."""
    for each in hidden:
        for path in places.runtime:
            if is_inside(path, each.path) and not _is_in_any(path, each.shown):
                raise Unprotectable(
                    f"the file tools can't run: pinnace runs from {path}, and {each.path} is hidden from them: install "
                    "pinnace in another folder, or take that one out of sandbox.hide"
                )


class _View:
    """Which paths of the machine are visible inside, before anything is hidden."""

    def __init__(self, shown: Sequence[str]) -> None:
        self._shown = shown

    def has(self, path: str) -> bool:
        return not _is_replaced(path) or any(is_inside(path, each) for each in self._shown)


def _view(places: SandboxPlaces, writable: Sequence[str], shown: Sequence[str]) -> _View:
    return _View((places.folder, *writable, *shown, *filter(_is_own_folder, places.outputs)))


def _is_own_folder(path: str) -> bool:
    """Return whether a folder is this user's alone: among the temporary files another user may have made its name."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077


def _is_replaced(path: str) -> bool:
    return any(is_inside(path, each) for each in _REPLACED)


def _is_in_any(path: str, folders: Iterable[str]) -> bool:
    return any(is_inside(path, each) for each in folders)


def _between(roots: Sequence[str], paths: Iterable[str]) -> set[str]:
    """Return the folders between each root and the paths in it, without both."""
    found: set[str] = set()
    for root in roots:
        for path in paths:
            folder = os.path.dirname(path)
            while folder != root and is_inside(folder, root) and folder not in found:
                if os.path.isdir(folder):
                    found.add(folder)
                folder = os.path.dirname(folder)
    return found


class _Above:
    """What the paths above another one say of it: the innermost decides."""

    def __init__(self, protected: Iterable[str], writable: Iterable[str]) -> None:
        # Of a path that is both, the protection counts.
        self._is_protected = {**dict.fromkeys(writable, False), **dict.fromkeys(protected, True)}

    def can_write(self, path: str) -> bool:
        """Return whether what is at a path could be written if it were not for a rule of its own."""
        folder = os.path.dirname(path)
        while folder not in self._is_protected and folder != "/":
            folder = os.path.dirname(folder)
        return not self._is_protected.get(folder, True)


def _unchanged(path: str) -> str:
    if _real(path, "sandbox.writable") != path:
        raise Unprotectable(f"sandbox.writable: {path} has become a link since the start, or leads through one")
    return path


def _real(path: str, name: str) -> str:
    real = os.path.realpath(path)
    if not (os.path.isdir(real) or os.path.isfile(real)):
        raise Unprotectable(f"{name}: {path} is neither a folder nor a file")
    return real


def _hidden(
    policy: SandboxPolicy,
    places: SandboxPlaces,
    readable: Sequence[str],
    view: _View,
    session_file: str | None,
    own: Sequence[str],
) -> tuple[tuple[HiddenFolder, ...], tuple[str, ...]]:
    homes = [each for each in (places.home, places.account_home) if each is not None]
    wanted = [f"{home}/{name}" for home in homes for name in SECRETS_AT_HOME]
    wanted += [*_SECRETS_OF_SYSTEM, *_host_keys(), *places.keys]
    # The usual agent folder, and its keys, where this process has another one.
    usual = [os.path.realpath(f"{home}/{_USUAL_AGENT_DIR}") for home in homes]
    usual = [each for each in usual if not is_inside(places.agent_dir, each) and not is_inside(each, places.agent_dir)]
    wanted += usual
    # The private folders of other processes, where TMPDIR is no folder that the sandbox replaces, are hidden, too.
    # What the user names has precedence over what is shown again.
    named = [os.path.realpath(each) for each in (*policy.hide, *own) if os.path.lexists(each)]
    found = [os.path.realpath(each) for each in wanted if os.path.lexists(each)]
    found = [*named, *(each for each in found if each not in readable)]
    for each in places.session_dirs:
        # Its files are transcripts. One in the working folder is protected instead, and stays visible.
        is_apart = not is_inside(places.folder, each) and not is_inside(each, places.folder)
        found += [each] if is_apart and not is_inside(each, places.agent_dir) else []
    folders = sorted({each for each in found if view.has(each) and os.path.isdir(each)})
    outer = [each for each in folders if not any(each != other and is_inside(each, other) for other in folders)]
    files = {each for each in found if view.has(each) and os.path.exists(each) and not os.path.isdir(each)}
    parts = [*readable, *(f"{each}/{name}" for each in usual for name in _SHOWN_OF_AGENT)]
    if session_file is not None:
        real = os.path.realpath(session_file)
        parts += [real] if _is_in_any(real, places.session_dirs) and os.path.isfile(real) else []
    shown = {each: tuple(path for path in parts if path != each and is_inside(path, each)) for each in outer}
    return (
        tuple(HiddenFolder(each, shown[each]) for each in outer),
        tuple(sorted(each for each in files if not _is_in_any(each, outer) and not is_inside(each, places.agent_dir))),
    )


def _host_keys() -> list[str]:
    with suppress(OSError):
        return [f"{_SSH}/{each}" for each in os.listdir(_SSH) if each.startswith("ssh_host_") and each.endswith("_key")]
    return []


def _agent_dir(places: SandboxPlaces, session_file: str | None, readable: Sequence[str]) -> HiddenFolder | None:
    folder = places.agent_dir
    if not os.path.isdir(folder):
        return None
    shown = [real for name in _SHOWN_OF_AGENT if is_inside(real := os.path.realpath(f"{folder}/{name}"), folder)]
    shown = [each for each in shown if os.path.exists(each)]
    if session_file is not None:
        real = os.path.realpath(session_file)
        if is_inside(real, f"{folder}/{_SESSIONS}") and os.path.isfile(real):
            shown.append(real)
    return HiddenFolder(folder, tuple(shown))


def session_file_of(env: Mapping[str, str]) -> str | None:
    """Return the session file that a command of the model learns."""
    return env.get(SESSION_VARIABLE)


def _resolver() -> str | None:
    real = os.path.realpath(_RESOLVER)
    return real if is_inside(real, "/run") and os.path.isfile(real) else None


def sockets() -> tuple[str, ...]:
    """Return the socket files of this machine's services that still exist, with links resolved."""
    found: set[str] = set()
    try:
        with open(_SOCKETS, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.readlines()[1:]
    except OSError:
        return ()
    for line in lines:
        path = line.rstrip("\n").split(" ", 7)[-1].strip() if line.count(" ") >= 7 else ""
        if path.startswith("/") and not _is_replaced(path):
            with suppress(OSError):
                if stat.S_ISSOCK(os.lstat(path).st_mode):
                    found.add(os.path.realpath(path))
    return tuple(sorted(found))


def _own_of(root: str, places: SandboxPlaces) -> Iterator[str]:
    """Yield what is this program's own in a folder that commands can write: its code, and its session files."""
    own = (*places.code, *places.session_dirs)
    yield from (each for each in own if each != root and is_inside(each, root) and os.path.exists(each))
