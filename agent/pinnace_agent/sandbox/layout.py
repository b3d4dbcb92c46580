"""What is where inside a sandbox: the policy and the disk of this moment, resolved for a mechanism.

Reads the disk, changes nothing. It is read before each command, since files appear: a key that was not there at the
start is hidden from the next command. What can't be protected (a `.git` that is a link) is an error, never left out.
Blocking.
"""

import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from pinnace_agent.core.ports.confinement import Access
from pinnace_agent.files.protected import KEYS_AT_HOME, is_inside
from pinnace_agent.sandbox.bubblewrap import Hidden, Layout
from pinnace_agent.sandbox.policy import SandboxPolicy, folder_refusal, refused_place

SECRETS_AT_HOME: Final = (
    *KEYS_AT_HOME,
    ".git-credentials",
    ".codex",
    ".claude",
    ".bash_history",
    ".zsh_history",
    ".ash_history",
    ".local/share/fish/fish_history",
    ".python_history",
    ".node_repl_history",
    ".psql_history",
    ".mysql_history",
    ".sqlite_history",
)
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

PROJECT_FOLDERS: Final = (".pi", ".agents")
_MOST_MODULES: Final = 200


class Unprotectable(OSError):
    """Something can't be protected or does not exist; nothing may run. The text is for the user."""


class SandboxPlaces(NamedTuple):
    """Where a process and its user have their files. All paths are resolved."""

    folder: str
    """The working folder."""
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
    account_home: str | None = None
    """The home folder of the user's account, where it is another one: programs such as ssh use it whatever HOME is."""


class Repository(NamedTuple):
    """What of the git folders below a writable folder is protected, and how."""

    pinned: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    absent_files: tuple[str, ...] = ()


def layout_of(  # each is another fact
    policy: SandboxPolicy,
    places: SandboxPlaces,
    *,
    program: str,
    private: str,
    disables_namespaces: bool,
    access: Access = "policy",
    session_file: str | None = None,
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

    Raises:
        Unprotectable: A path can't be protected, or a path of the settings does not exist.
    """
    is_writable = policy.mode == "workspace-write" and access != "read-only"
    writable = tuple(map(_unchanged_folder, policy.writable)) if is_writable else ()
    roots = (places.folder, *writable) if is_writable else ()
    readable = tuple(os.path.realpath(each) for each in policy.readable)
    if missing := [each for each in readable if not os.path.exists(each)]:
        raise Unprotectable(f"sandbox.readable: {missing[0]} does not exist")
    runtime = tuple(each for each in places.runtime if not is_inside(each, places.folder))
    shown_again = tuple(dict.fromkeys(each for each in (*readable, *runtime) if _is_replaced(each)))
    view = _view(places, writable, shown_again)
    folders, files = _hidden(policy, places, readable, view, session_file, (os.path.dirname(private),))
    protected, absent, pinned, absent_files = _protected(roots, places)
    agent_dir = _agent_dir(places, session_file, readable) if view.has(places.agent_dir) else None
    if agent_dir is not None and any(is_inside(agent_dir.path, each.path) for each in folders):
        agent_dir = None
    _refuse_hidden_runtime(places, folders if agent_dir is None else (*folders, agent_dir))
    hidden_paths = [each.path for each in folders] + ([agent_dir.path] if agent_dir is not None else [])
    # A folder above a mount point can be renamed, and everything made anew in its place, unless it is one, too.
    kept = (*protected, *absent, *absent_files, *hidden_paths, *files, *roots, *readable, *pinned)
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
        outputs=places.outputs,
        hidden_folders=folders,
        hidden_files=files,
        agent_dir=agent_dir,
        pinned=tuple(sorted({*pinned, *_between(roots, kept)})),
        protected=tuple(each for each in protected if not _is_in_any(each, hidden_paths)),
        absent=tuple(each for each in absent if not _is_in_any(each, hidden_paths)),
        masked=(*absent_files, *(each for each in sockets() if view.has(each) and not _is_in_any(each, hidden_paths))),
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
        real = _folder(each, "sandbox.writable")
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


def _refuse_hidden_runtime(places: SandboxPlaces, hidden: Iterable[Hidden]) -> None:
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
    return _View((places.folder, *writable, *shown, *places.outputs))


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


def _unchanged_folder(path: str) -> str:
    if _folder(path, "sandbox.writable") != path:
        raise Unprotectable(f"sandbox.writable: {path} has become a link since the start, or leads through one")
    return path


def _folder(path: str, name: str) -> str:
    real = os.path.realpath(path)
    if not os.path.isdir(real):
        raise Unprotectable(f"{name}: {path} is no folder")
    return real


def _hidden(
    policy: SandboxPolicy,
    places: SandboxPlaces,
    readable: Sequence[str],
    view: _View,
    session_file: str | None,
    own: Sequence[str],
) -> tuple[tuple[Hidden, ...], tuple[str, ...]]:
    homes = [each for each in (places.home, places.account_home) if each is not None]
    wanted = [f"{home}/{name}" for home in homes for name in SECRETS_AT_HOME]
    wanted += [*_SECRETS_OF_SYSTEM, *_host_keys()]
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
        tuple(Hidden(each, shown[each]) for each in outer),
        tuple(sorted(each for each in files if not _is_in_any(each, outer) and not is_inside(each, places.agent_dir))),
    )


def _host_keys() -> list[str]:
    with suppress(OSError):
        return [f"{_SSH}/{each}" for each in os.listdir(_SSH) if each.startswith("ssh_host_") and each.endswith("_key")]
    return []


def _agent_dir(places: SandboxPlaces, session_file: str | None, readable: Sequence[str]) -> Hidden | None:
    folder = places.agent_dir
    if not os.path.isdir(folder):
        return None
    shown = [real for name in _SHOWN_OF_AGENT if is_inside(real := os.path.realpath(f"{folder}/{name}"), folder)]
    shown = [each for each in shown if os.path.exists(each)]
    if session_file is not None:
        real = os.path.realpath(session_file)
        if is_inside(real, f"{folder}/{_SESSIONS}") and os.path.isfile(real):
            shown.append(real)
    return Hidden(folder, tuple(shown))


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


def _protected(
    roots: Sequence[str], places: SandboxPlaces
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    protected: list[str] = []
    absent: list[str] = []
    pinned: list[str] = []
    absent_files: list[str] = []
    for root in roots:
        _refuse_code(root, places)
        for name in PROJECT_FOLDERS:
            path = f"{root}/{name}"
            _refuse_link(path)
            (protected if os.path.lexists(path) else absent).append(path)
        repository = repository_at(root)
        pinned += repository.pinned
        protected += repository.protected
        absent += repository.absent
        absent_files += repository.absent_files
        own = [*places.code, *places.session_dirs]
        protected += [each for each in own if each != root and is_inside(each, root) and os.path.exists(each)]
    return tuple(protected), tuple(absent), tuple(pinned), tuple(absent_files)


def repository_at(root: str) -> Repository:
    """Return what is protected of the repository in a folder, of its submodules, or of the git folder that it is.

    Raises:
        Unprotectable: Something of it is a link, which a command could replace.
    """
    git = f"{root}/.git"
    _refuse_link(git)
    if os.path.isdir(git):
        found = _git_folder(git)
        return _joined(found, Repository((git,)), *(_submodule(root, each) for each in _submodules(root)))
    if os.path.lexists(git):
        return Repository(protected=(git,))  # of a worktree or a submodule: a file that names the folder
    return _git_folder(root) if is_git_folder(root) else Repository()


def is_git_folder(path: str) -> bool:
    """Return whether git takes a folder for one of its own."""
    return os.path.isfile(f"{path}/HEAD") and os.path.isdir(f"{path}/objects")


def git_folders(root: str) -> tuple[str, ...]:
    """Return the git folders of a repository and of its submodules."""
    git = f"{root}/.git"
    own = git if os.path.isdir(git) and not os.path.islink(git) else root if is_git_folder(root) else None
    return () if own is None else (own, *_modules(own))


def _git_folder(git: str) -> Repository:
    protected: list[str] = []
    absent: list[str] = []
    absent_files: list[str] = []
    for folder in (git, *_modules(git)):
        for name in ("config", "hooks", "config.worktree", "info/attributes", "worktrees", "commondir"):
            path = f"{folder}/{name}"
            _refuse_link(path)
            if os.path.lexists(path):
                protected.append(path)
            elif name == "hooks":
                absent.append(path)
            elif name == "config" or (name == "config.worktree" and _uses_worktree_config(folder)):
                absent_files.append(path)
    return Repository((), tuple(protected), tuple(absent), tuple(absent_files))


def _uses_worktree_config(git: str) -> bool:
    try:
        with open(f"{git}/config", "rb") as file:
            return b"worktreeconfig" in file.read(1024 * 1024).lower()
    except OSError:
        return False


def _modules(git: str) -> list[str]:
    """Return the git folders of submodules, whose names may have several parts."""
    found: list[str] = []
    left = [f"{git}/modules"]
    while left and len(found) < _MOST_MODULES:
        folder = left.pop()
        _refuse_link(folder)
        try:
            names = sorted(each.name for each in os.scandir(folder) if each.is_dir(follow_symlinks=False))
        except OSError:
            continue
        for name in names:
            path = f"{folder}/{name}"
            if is_git_folder(path):
                found.append(path)
                left.append(f"{path}/modules")
            else:
                left.append(path)
    return found


def _submodules(root: str) -> list[str]:
    """Return the folders that `.gitmodules` names."""
    try:
        with open(f"{root}/.gitmodules", encoding="utf-8", errors="surrogateescape") as file:
            lines = file.read(1024 * 1024).splitlines()
    except OSError:
        return []
    pairs = [line.partition("=") for line in lines]
    paths = [value.strip().strip('"') for name, _, value in pairs if name.strip().lower() == "path"]
    return [each for each in paths if each and not each.startswith("/") and ".." not in each.split("/")][:_MOST_MODULES]


def _submodule(root: str, path: str) -> Repository:
    folder = f"{root}/{path}"
    git = f"{folder}/.git"
    if not is_inside(os.path.realpath(git), os.path.realpath(folder)) or not os.path.lexists(git):
        return Repository()
    if os.path.realpath(folder) != os.path.normpath(folder):
        return Repository()  # a link in its path: not a submodule that git enters
    _refuse_link(git)
    return _joined(Repository((git,)), _git_folder(git)) if os.path.isdir(git) else Repository(protected=(git,))


def _joined(*parts: Repository) -> Repository:
    return Repository(*(tuple(dict.fromkeys(each for part in parts for each in part[place])) for place in range(4)))


def _refuse_link(path: str) -> None:
    if os.path.islink(path):
        raise Unprotectable(
            f"{path} is a link, which a command could replace, so the sandbox can't protect it: put what it leads to "
            "in its place, or use --sandbox read-only"
        )
