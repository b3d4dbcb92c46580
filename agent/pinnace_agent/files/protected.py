"""Which paths are protected, and why: of the kernel, with keys, the agent's own, or run without being requested.

Pure: decides from the names in a resolved path (absolute, without links, `.` and `..`) and never reads the disk, so
the caller resolves first. What follows from a protection is the caller's decision; the two usual ones are the sets
below. Names are compared without regard to case, since file systems exist that do so. Also holds what the sandbox of
this process, if there is one, has to say of paths.
"""

from enum import StrEnum
from typing import Final, NamedTuple

from pinnace_agent.files.places_of_keys import keys_at_home


class Protection(StrEnum):
    """Why a path is protected."""

    PROCESS = "shows the environment, memory or open files of a process"
    KERNEL = "belongs to the kernel (/proc, /sys, /dev)"
    KEYS = "is a place of keys or passwords"
    AGENT = "is in the agent folder"
    PROJECT = "configures agents for this project (.pi, .agents)"
    GIT = "belongs to git or another version control (.git, .hg, .svn, .jj)"
    STARTUP = "is read by a shell, a program or the system when it starts"
    EXTENSION = "is a loaded extension"
    HIDDEN = "is hidden by sandbox.hide"


NEVER_IN_PROMPTS: Final = frozenset(
    {Protection.PROCESS, Protection.KERNEL, Protection.KEYS, Protection.AGENT, Protection.GIT, Protection.HIDDEN}
)
"""No file of a repository leads there and becomes a part of a prompt."""

ALWAYS_ASK: Final = frozenset(Protection)
"""A write there is never covered by an earlier approval: what is written may run, or grant rights, later."""

OF_PROCESSES: Final = frozenset({Protection.PROCESS})
"""What no tool opens: the keys of this process are in its environment and memory."""


class Places(NamedTuple):
    """Where this user's protected folders are. All resolved."""

    home: str = ""
    agent_dir: str = ""
    extensions: tuple[str, ...] = ()
    """Files and folders of extensions that are loaded."""
    hidden: tuple[str, ...] = ()
    """What the settings of a sandbox hide from commands, if there is one."""


HIDDEN: Final[list[str]] = []
"""The resolved paths that the sandbox of this process hides from commands: these get into no prompt by a link."""

WRITABLE: Final[list[str]] = []
"""The resolved folders that commands in the sandbox of this process can write: no program of theirs runs outside."""

STARTUP_OF_PROJECT: Final = frozenset(
    {
        ".husky",
        ".githooks",
        ".pre-commit-config.yaml",
        ".lefthook.yml",
        ".lefthook.yaml",
        "lefthook.yml",
        "lefthook.yaml",
        "lefthook-local.yml",
        ".envrc",
        ".vscode",
        ".idea",
        ".devcontainer",
        ".claude",
        ".codex",
        ".cursor",
        ".mcp.json",
    }
)
"""Files and folders of a project, wherever they are in it, that git, an editor, a shell or another agent reads or runs
without being requested."""
PROJECT_FOLDERS: Final = (".pi", ".agents")
"""Folders that configure agents for a project."""
_REPOSITORY_FOLDERS: Final = frozenset({".git", ".hg", ".svn", ".jj"})

# Below the home folder, in small letters. A name ends where a component ends.
_KEYS_AT_HOME: Final = tuple(each.casefold() for each in keys_at_home())
STARTUP_AT_HOME: Final = (
    ".profile",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".bash_aliases",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".zlogout",
    ".kshrc",
    ".mkshrc",
    ".cshrc",
    ".tcshrc",
    ".login",
    ".logout",
    ".inputrc",
    ".xprofile",
    ".xinitrc",
    ".xsession",
    ".xsessionrc",
    ".pam_environment",
    ".gitconfig",
    ".vimrc",
    ".vim",
    ".emacs",
    ".emacs.d",
    ".tmux.conf",
    ".pythonrc",
    ".config/fish",
    ".config/zsh",
    ".config/git",
    ".config/nvim",
    ".config/systemd",
    ".config/autostart",
    ".config/environment.d",
    ".config/direnv",
    ".local/bin",
    "bin",
    "library/launchagents",
)
_STARTUP_OF_SYSTEM: Final = (
    "/etc",
    "/private/etc",
    "/library/launchagents",
    "/library/launchdaemons",
    "/bin",
    "/sbin",
    "/boot",
    "/lib",
    "/lib64",
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
    "/usr/local/bin",
    "/usr/local/sbin",
    "/usr/local/lib",
    "/var/spool/cron",
)
# Of a process, but with no more than the kernel shows of itself; `/proc/net` and `/proc/mounts` lead there.
_HARMLESS_OF_PROCESS: Final = frozenset(
    """cgroup comm io limits loginuid mountinfo mounts mountstats net oom_score oom_score_adj sched schedstat stat statm
    status uid_map gid_map wchan""".split()
)
# Wherever they are: private keys by the names that ssh-keygen gives, and files of passwords that programs look for.
_KEY_FILES: Final = frozenset(
    """id_rsa id_dsa id_ecdsa id_ed25519 id_ecdsa_sk id_ed25519_sk .netrc .pgpass .git-credentials .env""".split()
)
_SAMPLES: Final = (".env.example", ".env.sample", ".env.template")
# In the agent folder, with the copies and temporary files beside them.
_AGENT_KEY_NAMES: Final = ("auth.json", "models.json", "mcp-auth.json", "mcp.json")
_AGENT_KEY_FILES: Final = (*_AGENT_KEY_NAMES, *(f".{name}" for name in _AGENT_KEY_NAMES))


def is_inside(path: str, folder: str) -> bool:
    """Return whether a resolved path is a resolved folder or below it."""
    return path == folder or path.startswith(folder if folder.endswith("/") else f"{folder}/")


def protection_of(path: str, places: Places) -> Protection | None:
    """Return why a resolved path is protected; None: it is not. Of several reasons the first of `Protection`."""
    path = path.casefold()
    names = path.split("/")[1:]
    return (
        _of_kernel(names)
        or _of_keys(path, names, places)
        or (Protection.AGENT if _is_below(path, places.agent_dir) else None)
        or (Protection.PROJECT if not set(PROJECT_FOLDERS).isdisjoint(names) else None)
        or (Protection.GIT if not _REPOSITORY_FOLDERS.isdisjoint(names) else None)
        or _of_startup(path, names, places)
        or (Protection.EXTENSION if any(_is_below(path, each) for each in places.extensions) else None)
        or (Protection.HIDDEN if any(_is_below(path, each) for each in places.hidden) else None)
    )


def _of_kernel(names: list[str]) -> Protection | None:
    if names[0] == "proc" and len(names) > 1:
        # The links are resolved in a resolved path; a caller that has not done so gets the same answer.
        if names[1].isdigit() or names[1] in ("self", "thread-self"):
            below = names[4:] if names[2:3] == ["task"] else names[2:]
            return Protection.KERNEL if below and below[0] in _HARMLESS_OF_PROCESS else Protection.PROCESS
        if names[1] == "kcore":
            return Protection.PROCESS
    # Memory in the form of a disk, where people work, too.
    is_memory = names[:2] == ["dev", "shm"] and len(names) > 2
    return Protection.KERNEL if names[0] in ("proc", "sys", "dev") and not is_memory else None


def _of_keys(path: str, names: list[str], places: Places) -> Protection | None:
    below_agent_dir = _below(path, places.agent_dir)
    is_agents = below_agent_dir is not None and below_agent_dir.startswith(_AGENT_KEY_FILES)
    is_named = names[-1] in _KEY_FILES or (names[-1].startswith(".env.") and not names[-1].startswith(_SAMPLES))
    if is_agents or is_named or _is_one_of(_below(path, places.home), _KEYS_AT_HOME):
        return Protection.KEYS
    return None


def _of_startup(path: str, names: list[str], places: Places) -> Protection | None:
    is_of_system = any(is_inside(path, each) for each in _STARTUP_OF_SYSTEM)
    is_of_project = not STARTUP_OF_PROJECT.isdisjoint(names)
    is_at_home = _is_one_of(_below(path, places.home), STARTUP_AT_HOME)
    return Protection.STARTUP if is_of_system or is_of_project or is_at_home else None


def _below(path: str, folder: str) -> str | None:
    """Return a path relative to a folder; None: it is not below it, or there is no such folder."""
    prefix = f"{folder.casefold().rstrip('/')}/"
    return path[len(prefix) :] if folder and path.startswith(prefix) else None


def _is_below(path: str, place: str) -> bool:
    return bool(place) and is_inside(path, place.casefold())


def _is_one_of(relative: str | None, places: tuple[str, ...]) -> bool:
    return relative is not None and any(is_inside(relative, each) for each in places)
