"""Which paths are protected, by their names alone."""

import pytest

from pinnace_agent.files.protected import ALWAYS_ASK, Places, Protection, is_inside, protection_of

PLACES = Places("/home/user", "/home/user/.pi/agent", ("/opt/gates/gate.py", "/opt/pack"))

PROTECTED = [
    (Protection.PROCESS, "/proc/self/environ"),
    (Protection.PROCESS, "/proc/17/environ"),
    (Protection.PROCESS, "/proc/17/fd/3"),
    (Protection.PROCESS, "/proc/17/mem"),
    (Protection.PROCESS, "/proc/17/cmdline"),
    (Protection.PROCESS, "/proc/17/task/18/environ"),
    (Protection.PROCESS, "/proc/17"),
    (Protection.PROCESS, "/proc/kcore"),
    (Protection.KERNEL, "/proc/17/net/tcp"),
    (Protection.KERNEL, "/proc/17/task/18/status"),
    (Protection.KERNEL, "/proc/cpuinfo"),
    (Protection.KERNEL, "/proc"),
    (Protection.KERNEL, "/sys/kernel/notes"),
    (Protection.KERNEL, "/dev/sda"),
    (Protection.KERNEL, "/dev/shm"),
    (Protection.KEYS, "/home/user/Library/Keychains/login.keychain-db"),
    (Protection.STARTUP, "/private/etc/profile"),
    (Protection.KEYS, "/home/user/.ssh/id_rsa"),
    (Protection.KEYS, "/home/user/.ssh"),
    (Protection.KEYS, "/home/user/.SSH/config"),
    (Protection.KEYS, "/srv/backup/id_ed25519"),
    (Protection.KEYS, "/home/user/work/.env"),
    (Protection.KEYS, "/home/user/work/.env.production"),
    (Protection.KEYS, "/home/user/.config/gh/hosts.yml"),
    (Protection.KEYS, "/home/user/.pi/agent/auth.json"),
    (Protection.KEYS, "/home/user/.pi/agent/auth.json.bak"),
    (Protection.KEYS, "/home/user/.pi/agent/.auth.json.0011.tmp"),
    (Protection.KEYS, "/home/user/.pi/agent/mcp-auth.json"),
    (Protection.KEYS, "/home/user/.pi/agent/mcp.json"),
    (Protection.KEYS, "/home/user/.pi/agent/models.json"),
    (Protection.AGENT, "/home/user/.pi/agent/trust.json"),
    (Protection.AGENT, "/home/user/.pi/agent/extensions/x.py"),
    (Protection.AGENT, "/home/user/.pi/agent"),
    (Protection.PROJECT, "/home/user/work/.pi/settings.json"),
    (Protection.PROJECT, "/home/user/work/.PI"),
    (Protection.PROJECT, "/home/user/work/.agents/skills/x/SKILL.md"),
    (Protection.GIT, "/home/user/work/.git/hooks/pre-commit"),
    (Protection.GIT, "/home/user/work/sub/.git"),
    (Protection.STARTUP, "/home/user/.bashrc"),
    (Protection.STARTUP, "/home/user/.config/fish/config.fish"),
    (Protection.STARTUP, "/etc/profile.d/x.sh"),
    (Protection.STARTUP, "/usr/local/bin/git"),
    (Protection.EXTENSION, "/opt/gates/gate.py"),
    (Protection.EXTENSION, "/opt/pack/part.py"),
]

FREE = [
    "/",
    "/home/user",
    "/home/user/work/src/main.py",
    "/home/user/work/.pipeline",
    "/home/user/work/.gitignore",
    "/home/user/work/.env.example",
    "/home/user/.bashrc.old",
    "/home/user/.sshd",
    "/home/me/.bashrc",
    "/process/17/environ",
    "/dev/shm/work/a.py",
    "/opt/gates/other.py",
    "/opt/package/part.py",
]


@pytest.mark.parametrize(("protection", "path"), PROTECTED)
def test_a_path_is_protected(protection: Protection, path: str) -> None:
    assert protection is protection_of(path, PLACES)
    assert protection in ALWAYS_ASK


@pytest.mark.parametrize("path", FREE)
def test_a_path_is_not_protected(path: str) -> None:
    assert protection_of(path, PLACES) is None


@pytest.mark.parametrize("path", ["/home/user/.bashrc", "/opt/pack/part.py"])
def test_places_that_are_unknown_protect_nothing(path: str) -> None:
    assert protection_of(path, Places()) is None


def test_a_folder_is_inside_of_itself_and_of_the_root_but_of_none_whose_name_it_continues() -> None:
    assert is_inside("/a/b", "/a/b")
    assert is_inside("/a/b/c", "/a/b")
    assert is_inside("/a", "/")
    assert not is_inside("/a/bc", "/a/b")
    assert not is_inside("/a", "/a/b")
