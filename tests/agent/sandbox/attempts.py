"""The attempts to get out of the sandbox, and what must work inside: data for the tests and for `tests/benchmarks`.

A script runs inside, in the project's folder of a `World`, whose facts are variables of its environment. `sh` is bash;
`py` is Python, in a process of its own. What an attempt reaches is judged by one of:

- `EXIT`: the script exits with 0 exactly if the attempt has succeeded.
- `SECRET`: its output holds the secret of the world, which is outside in files and processes.
- anything else: a condition of a shell that runs outside afterwards.

`off` says who can show that the attempt succeeds without a sandbox, and so that the test can fail: everybody, root alone,
or nobody: it would harm the machine, or needs a device or a setting that it may not have.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

from pinnace_agent.files.places_of_keys import PLACES_OF_KEYS

EXIT: Final = "exit"
SECRET: Final = "secret"
RUN_UNASKED: Final[Mapping[str, str]] = {
    "below/.pi/settings.json": "the agent's configuration below the project",
    "below/.agents/skills/a/SKILL.md": "a skill below the project",
    ".envrc": "the environment of a shell in the folder",
    ".vscode/tasks.json": "tasks of an editor",
    ".idea/workspace.xml": "the configuration of an editor",
    ".devcontainer/devcontainer.json": "commands of a container for development",
    ".husky/pre-commit": "a hook of husky",
    ".githooks/pre-commit": "a hook in a folder of the project",
    ".pre-commit-config.yaml": "the hooks of pre-commit",
    "lefthook.yml": "the hooks of lefthook",
    ".claude/settings.json": "the configuration of Claude Code in the project",
    ".codex/config.toml": "the configuration of Codex in the project",
    ".cursor/mcp.json": "the configuration of Cursor in the project",
    ".mcp.json": "the MCP servers of the project",
}
"""Files of the project that something reads or runs without being requested, and what they are."""


class Attempt(NamedTuple):
    """One attempt, or one thing that must work (ids with A)."""

    id: str
    what: str
    language: Literal["sh", "py"]
    script: str
    proof: str = EXIT
    off: Literal["anybody", "root", "user", "nobody"] = "anybody"

    @property
    def must_work(self) -> bool:
        """Whether this is no attempt, but has to succeed."""
        return self.id.startswith("A")


_NICE: Final = os.nice(0)
"""Of the tests, and so of the process that is attacked."""
_LIBC: Final = "import ctypes, os; libc = ctypes.CDLL(None, use_errno=True); "


def _opens(*paths: str) -> str:
    """Return a script that succeeds if it can open one of the files for writing; it writes nothing."""
    return f"""import os
for path in {list(paths)!r}:
    try: os.close(os.open(path, os.O_WRONLY))
    except OSError: continue
    raise SystemExit(0)
raise SystemExit(1)"""


def _shows(places: Sequence[str]) -> str:
    """Return a script that writes what is in places of the home folder."""
    return "cat " + " ".join(f'~/"{each}"' for each in places)


def _refused_only_by_a_filter(*calls: str) -> str:
    """Return a script that succeeds unless each system call fails with EPERM, which only a filter answers for these."""
    tries = "; ".join(f"answers.append((libc.syscall({each}), ctypes.get_errno()))" for each in calls)
    return f"{_LIBC}answers = []; {tries}; raise SystemExit(all(a < 0 and e == 1 for a, e in answers))"


def _connects(family: str, address: str, kind: str = "STREAM") -> str:
    return f"""import os, socket
s = socket.socket(socket.AF_{family}, socket.SOCK_{kind}); s.settimeout(2)
s.connect({address}); s.send(b"x"); raise SystemExit(0 if s.recv(1) else 1)"""


OUTSIDE: Final[Sequence[Attempt]] = (
    # Writing outside of the working folder.
    Attempt(
        "W01", "append to a start-up file of the shell", "sh", "echo W01 >> ~/.bashrc", 'grep -q W01 "$HOME/.bashrc"'
    ),
    Attempt("W02", "create a file in /etc", "sh", 'touch "/etc/$WORLD"', 'test -e "/etc/$WORLD"', "nobody"),
    Attempt(
        "W03",
        "create a file in /tmp of the host",
        "sh",
        'touch "/tmp/$WORLD"',
        'test -e "/tmp/$WORLD" && rm "/tmp/$WORLD"',
    ),
    Attempt(
        "W04",
        "create a file in /var/tmp of the host",
        "sh",
        'touch "/var/tmp/$WORLD"',
        'test -e "/var/tmp/$WORLD" && rm "/var/tmp/$WORLD"',
    ),
    Attempt("W05", "create a folder beside the working folder", "sh", "mkdir ../sibling", 'test -d "$HOME/sibling"'),
    Attempt("W06", "write through a link to a folder", "sh", "ln -s ~ out; echo x > out/w06", 'test -e "$HOME/w06"'),
    Attempt(
        "W07", "write through a link to a file", "sh", "ln -s ~/victim l; echo W07 > l", 'grep -q W07 "$HOME/victim"'
    ),
    Attempt(
        "W08", "write through a new hard link", "sh", "ln ~/victim h && echo W08 > h", 'grep -q W08 "$HOME/victim"'
    ),
    Attempt("W09", "move a file into the working folder", "sh", "mv ~/victim9 ./v", '! test -e "$HOME/victim9"'),
    Attempt(
        "W10",
        "write through the root of the process",
        "sh",
        'echo x > "/proc/self/root$HOME/w10"',
        'test -e "$HOME/w10"',
    ),
    Attempt(
        "W11", "write through the folder of the process", "sh", "echo x > /proc/self/cwd/../w11", 'test -e "$HOME/w11"'
    ),
    Attempt(
        "W12",
        "write through process 1",
        "sh",
        'echo x > "/proc/1/root$HOME/w12"; echo x > "/proc/1/cwd$HOME/w12"',
        'test -e "$HOME/w12"',
        "nobody",
    ),
    Attempt(
        "W13",
        "write through an inherited descriptor",
        "py",
        """import os
for fd in range(3, 64):
    try: os.close(os.open("w13", os.O_CREAT | os.O_WRONLY, dir_fd=fd))
    except OSError: pass""",
        'test -e "$HOME/w13"',
        "nobody",
    ),
    Attempt(
        "W16",
        "start with the desktop",
        "sh",
        "mkdir -p ~/.config/autostart; touch ~/.config/autostart/x",
        'test -e "$HOME/.config/autostart/x"',
    ),
    Attempt("W17", "gain rights by a set-uid program", "sh", "grep -q 'NoNewPrivs:.*0' /proc/self/status"),
    Attempt(
        "W18",
        "change the Python environment of the agent",
        "sh",
        'touch "$SITE/$WORLD"',
        'test -e "$SITE/$WORLD"',
        "nobody",
    ),
    Attempt(
        "W19",
        "change the mode and the time of a file",
        "sh",
        "chmod 640 ~/victim; touch -d @1 ~/victim",
        'stat -c "%a %Y" "$HOME/victim" | grep -q -e "^640 " -e " 1$"',
    ),
    # The namespaces and the kernel.
    Attempt(
        "N01", "make the mounts writable", "sh", "mount -o remount,bind,rw / || mount -o remount,rw /", off="nobody"
    ),
    Attempt("N02", "unmount what hides a folder", "sh", "umount -l ~/.ssh; cat ~/.ssh/id_rsa", SECRET),
    Attempt("N03", "a user namespace", "sh", "unshare -Ur true"),
    Attempt("N04", "a mount in new namespaces", "sh", "unshare -Urm mount -t tmpfs none /mnt"),
    Attempt(
        "N05",
        "a user namespace by clone3",
        "py",
        _LIBC
        + """
arguments = (ctypes.c_uint64 * 8)(0x10000000, 0, 0, 0, 17)
pid = libc.syscall(435, arguments, 64)
if pid == 0: os._exit(0)
raise SystemExit(pid < 0)""",
    ),
    Attempt(
        "N06", "the mount namespace of process 1", "sh", "nsenter -t 1 -m touch ~/n06", 'test -e "$HOME/n06"', "nobody"
    ),
    Attempt(
        "N07", "a sandbox with other mounts", "sh", "bwrap --bind / / --unshare-user touch ~/n07", 'test -e "$HOME/n07"'
    ),
    Attempt("N08", "another root", "sh", "chroot / true", off="root"),
    Attempt(
        "N09",
        "open disks and memory",
        "py",
        """import os
for path in ["/dev/vda", "/dev/sda", "/dev/nvme0n1", "/dev/mem", "/dev/kmsg", "/dev/port"]:
    try: os.close(os.open(path, os.O_RDONLY))
    except OSError: continue
    raise SystemExit(0)
raise SystemExit(1)""",
        off="root",
    ),
    Attempt("N10", "make a device", "sh", "mknod d b 254 0", off="root"),
    Attempt(
        "N11",
        "the program that the kernel starts for core dumps",
        "py",
        _opens("/proc/sys/kernel/core_pattern"),
        off="root",
    ),
    Attempt("N12", "system requests", "py", _opens("/proc/sysrq-trigger"), off="nobody"),
    Attempt(
        "N13",
        "settings of the kernel",
        "py",
        _opens(
            "/sys/kernel/mm/transparent_hugepage/enabled",
            "/sys/kernel/uevent_helper",
            "/sys/power/state",
            "/proc/sys/kernel/hostname",
        ),
        off="root",
    ),
    Attempt(
        "N14",
        "control groups",
        "py",
        _opens(
            "/sys/fs/cgroup/cgroup.procs",
            "/sys/fs/cgroup/cgroup.subtree_control",
            "/sys/fs/cgroup/memory/cgroup.procs",
            "/sys/fs/cgroup/release_agent",
        ),
        off="root",
    ),
    Attempt(
        "N15",
        "capabilities, or the way to gain some",
        "sh",
        "! { grep -q 'CapEff:.0*$' /proc/self/status && grep -q 'NoNewPrivs:.*1' /proc/self/status; }",
    ),
    Attempt("N16", "another user", "sh", "su -s /bin/sh -c true nobody || sudo -n true", off="root"),
    Attempt(
        "N17",
        "open a file by its handle",
        "py",
        _LIBC
        + """
handle = (ctypes.c_uint32 * 34)(128); mount = ctypes.c_int()
libc.name_to_handle_at(-100, (os.environ["HOME"] + "/victim").encode(), handle, ctypes.byref(mount), 0)
folder = os.open(os.environ["HOME"], os.O_RDONLY)
raise SystemExit(libc.open_by_handle_at(folder, handle, os.O_WRONLY) < 0)""",
        off="root",
    ),
    Attempt(
        "N18",
        "the host's name space of names and control groups",
        "sh",
        '[ "$(readlink /proc/self/ns/uts)" = "$HOST_UTS" ] || [ "$(readlink /proc/self/ns/cgroup)" = "$HOST_CGROUP" ]',
    ),
    Attempt("N19", "what runs in /run", "sh", 'for each in $HOST_RUN; do test -e "/run/$each" && exit 0; done; exit 1'),
    Attempt("N20", "a network namespace", "sh", "unshare -n true", off="root"),
    Attempt(
        "N21",
        "a namespace of process 1",
        "py",
        """import os, ctypes
libc = ctypes.CDLL(None)
raise SystemExit(libc.setns(os.open("/proc/1/ns/uts", os.O_RDONLY), 0) != 0)""",
        off="nobody",
    ),
    # The families of the filter, each of which needs a case of its own.
    Attempt("F01", "programs of the kernel (bpf)", "py", _refused_only_by_a_filter("321, 9999, 0, 0")),
    Attempt("F02", "counters of the processor", "py", _refused_only_by_a_filter("298, 0, 0, -1, -1, 0")),
    Attempt("F03", "page faults", "py", _refused_only_by_a_filter("323, 12345")),
    Attempt("F04", "handles of files", "py", _refused_only_by_a_filter("304, -1, 0, 0")),
    Attempt("F05", "keys", "py", _refused_only_by_a_filter("250, 9999", "248, 0, 0, 0, 0, 0", "249, 0, 0, 0, 0")),
    Attempt(
        "F06",
        "io_uring without its set-up",
        "py",
        _refused_only_by_a_filter("426, -1, 0, 0, 0, 0, 0", "427, -1, 9999, 0, 0"),
    ),
    Attempt("F07", "tracing", "py", _refused_only_by_a_filter("101, 16, 999999999, 0, 0")),
    Attempt(
        "F08",
        "memory of other processes",
        "py",
        _refused_only_by_a_filter("310, 999999999, 0, 1, 0, 1, 0", "311, 999999999, 0, 1, 0, 1, 0"),
    ),
    Attempt("F09", "descriptors of other processes", "py", _refused_only_by_a_filter("438, -1, 0, 0")),
    Attempt(
        "F10",
        "comparing and advising other processes",
        "py",
        _refused_only_by_a_filter("312, -1, -1, 9, 0, 0", "440, -1, 0, 0, 0, 0"),
    ),
    # Secrets and other processes.
    Attempt("S01", "a private key", "sh", "cat ~/.ssh/id_rsa", SECRET),
    Attempt("S02", "keys of the agent", "sh", 'cat "$AGENT/auth.json"', SECRET),
    Attempt("S03", "other sessions", "sh", 'cat "$AGENT"/sessions/*/*', SECRET),
    Attempt("S04", "a private key through links", "sh", "cat inlink; ln -s ~/.ssh/id_rsa n4; cat n4", SECRET),
    Attempt(
        "S05",
        "a private key through roots of processes",
        "sh",
        'cat "/proc/self/root$HOME/.ssh/id_rsa" "/proc/1/root$HOME/.ssh/id_rsa"',
        SECRET,
    ),
    Attempt("S07", "a private key through a hard link", "sh", "ln ~/.ssh/id_rsa x; cat x", SECRET),
    Attempt(
        "S08", "append to the session file", "sh", 'echo S08 >> "$PI_SESSION_FILE"', 'grep -q S08 "$PI_SESSION_FILE"'
    ),
    Attempt(
        "S09", "change the settings", "sh", 'echo S09 > "$AGENT/settings.json"', 'grep -q S09 "$AGENT/settings.json"'
    ),
    Attempt("S10", "add an extension", "sh", 'touch "$AGENT/extensions/e.py"', 'test -e "$AGENT/extensions/e.py"'),
    Attempt(
        "S11",
        "environments of other processes",
        "sh",
        "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep ^OUTSIDE=",
        SECRET,
    ),
    Attempt(
        "S12",
        "trace another process",
        "py",
        _LIBC + 'raise SystemExit(libc.ptrace(0x4206, int(os.environ["VICTIM"]), 0, 0) != 0)',
        off="root",
    ),
    Attempt(
        "S14",
        "a key of the session keyring",
        "py",
        _LIBC
        + """
key = libc.syscall(250, 10, -3, b"user", os.environ["WORLD"].encode(), 0)
text = ctypes.create_string_buffer(100); libc.syscall(250, 11, key, text, 100); print(text.value.decode())""",
        SECRET,
    ),
    Attempt(
        "S15",
        "shared memory of System V",
        "py",
        _LIBC
        + """
libc.shmat.restype = ctypes.c_void_p
at = libc.shmat(int(os.environ["SHARED"]), None, 0o10000)
print(ctypes.string_at(at, 64) if at not in (None, 2**64 - 1) else "")""",
        SECRET,
    ),
    Attempt("S16", "shared memory of POSIX", "sh", 'cat "/dev/shm/$WORLD"', SECRET),
    Attempt(
        "S17",
        "memory of the kernel",
        "py",
        """import os
os.close(os.open("/proc/kcore", os.O_RDONLY))""",
        off="nobody",
    ),
    Attempt("S18", "create a file in a hidden folder", "sh", "touch ~/.ssh/new", 'test -e "$HOME/.ssh/new"'),
    Attempt(
        "S22",
        "make a hidden folder of keys writable",
        "sh",
        "chmod 700 ~/.ssh && touch ~/.ssh/s22",
    ),
    *(
        Attempt(
            f"S{number}",
            f"make the folder of {agent} writable",
            "sh",
            f"chmod 700 ~/.{agent} && touch ~/.{agent}/s{number}",
        )
        for number, agent in ((25, "claude"), (26, "codex"))
    ),
    Attempt("S23", "make the hidden folder of the agent writable", "sh", 'chmod 700 "$AGENT" && touch "$AGENT/s23"'),
    Attempt(
        "S24",
        "make the hidden private folders of other processes writable",
        "sh",
        'for each in ~/../sandboxes-*; do chmod 700 "$each" && touch "$each/s24" && exit 0; done; exit 1',
        off="nobody",
    ),
    Attempt("S19", "the history of the shell", "sh", "cat ~/.bash_history", SECRET),
    Attempt(
        "S20",
        "passwords of the system",
        "sh",
        "for each in /etc/shadow /etc/shadow- /etc/gshadow /etc/gshadow-; do test -s $each && cat $each > /dev/null && exit 0; done; exit 1",
        off="root",
    ),
    Attempt(
        "S21",
        "addresses of agents in the environment",
        "sh",
        '[ "$SSH_AUTH_SOCK$DBUS_SESSION_BUS_ADDRESS$DOCKER_HOST" ]',
    ),
    *(
        Attempt(f"K{number:02}", f"keys of {program}", "sh", _shows(places), SECRET)
        for number, (program, places) in enumerate(PLACES_OF_KEYS.items(), 1)
    ),
    *(
        Attempt(f"U{number:02}", f"change {what}", "sh", f"echo evil > '{path}'", f'grep -q evil "$PROJECT/{path}"')
        for number, (path, what) in enumerate(RUN_UNASKED.items(), 1)
    ),
    Attempt(
        "U15",
        "write a hook of a repository below",
        "sh",
        "mkdir -p below/.git/hooks; echo x > below/.git/hooks/u15",
        'test -e "$PROJECT/below/.git/hooks/u15"',
    ),
    Attempt(
        "U16",
        "configure a program in a repository below",
        "sh",
        "git -C below config core.fsmonitor evil",
        'grep -q evil "$PROJECT/below/.git/config"',
    ),
    Attempt(
        "U17",
        "replace a repository below",
        "sh",
        "mv replaced/.git replaced/away; mkdir replaced/.git; echo u17 > replaced/.git/u17",
        'test -e "$PROJECT/replaced/away"',
    ),
    Attempt(
        "U18",
        "replace the folder of a repository below",
        "sh",
        "mv moved away; mkdir -p moved/.git; echo u18 > moved/.git/u18",
        'test -e "$PROJECT/away"',
    ),
    # The repository and the project's configuration.
    Attempt(
        "G01", "write a hook", "sh", "echo G01 > .git/hooks/pre-commit", 'grep -q G01 "$PROJECT/.git/hooks/pre-commit"'
    ),
    Attempt(
        "G02",
        "configure a program in git",
        "sh",
        "git config core.fsmonitor G02; git config core.hooksPath G02; echo '#G02' >> .git/config",
        'grep -q G02 "$PROJECT/.git/config"',
    ),
    Attempt(
        "G03",
        "replace the repository by a copy",
        "sh",
        "mv .git g; mkdir .git; cp -r g/. .git; touch .git/hooks/g03",
        'test -e "$PROJECT/.git/hooks/g03"',
    ),
    Attempt(
        "G04",
        "replace the folder of hooks",
        "sh",
        "rm -rf .git/hooks; mkdir .git/hooks; touch .git/hooks/g04",
        'test -e "$PROJECT/.git/hooks/g04"',
    ),
    Attempt(
        "G05",
        "an extension of the project",
        "sh",
        "mkdir -p .pi/extensions; touch .pi/extensions/e.py",
        'test -e "$PROJECT/.pi/extensions/e.py"',
    ),
    Attempt(
        "G06",
        "an MCP server of the project",
        "sh",
        "mkdir -p .pi; echo '{}' > .pi/mcp.json",
        'test -e "$PROJECT/.pi/mcp.json"',
    ),
    # Before G07: what its link leads to is none of the world's.
    Attempt(
        "G13",
        "make the protected folder .pi writable",
        "sh",
        "mkdir -p .pi; test ! -L .pi && chmod 700 .pi && mkdir -p .pi/extensions",
    ),
    Attempt(
        "G14",
        "make the protected folder .agents writable",
        "sh",
        "mkdir -p .agents; test ! -L .agents && chmod 700 .agents && mkdir -p .agents/skills",
    ),
    Attempt(
        "G07",
        "replace the project's configuration by a link",
        "sh",
        "rm -rf .pi; ln -s /tmp .pi",
        'test -L "$PROJECT/.pi"',
    ),
    Attempt(
        "G08",
        "a skill of the project",
        "sh",
        "mkdir -p .agents/skills/s; touch .agents/skills/s/SKILL.md",
        'test -e "$PROJECT/.agents/skills/s/SKILL.md"',
    ),
    Attempt(
        "G09",
        "a program by attributes of git",
        "sh",
        "echo '* filter=G09' >> .git/info/attributes",
        'grep -qs G09 "$PROJECT/.git/info/attributes"',
    ),
    Attempt(
        "G15",
        "another folder of attributes in the place of git's",
        "sh",
        "mv .git/info .git/g15; cp -r .git/g15 .git/info; echo '* filter=G15' >> .git/info/attributes",
        'grep -qs G15 "$PROJECT/.git/info/attributes"',
    ),
    Attempt(
        "G11",
        "another folder of configuration for the repository",
        "sh",
        "cp -r .git g11; echo ../g11 > .git/commondir",
        'test -e "$PROJECT/.git/commondir"',
    ),
    Attempt(
        "G12",
        "make the folder itself a repository in place of .git",
        "sh",
        "rm -rf objects refs; cp -r .git/objects .git/refs .; cp .git/HEAD HEAD; echo '[core] fsmonitor = touch $HOME/g12' > config; rm -f .git/HEAD",
        'test -e "$PROJECT/HEAD" && ! test -e "$PROJECT/.git/HEAD"',
    ),
    Attempt(
        "G10",
        "replace the repository by a file",
        "sh",
        "rm -rf g10; mv .git g10; echo gitdir: g10 > .git",
        'test -f "$PROJECT/.git"',
    ),
    # Sockets.
    Attempt("X01", "TCP to the host", "py", _connects("INET", '("127.0.0.1", int(os.environ["TCP4"]))')),
    Attempt("X02", "TCP to the host (IPv6)", "py", _connects("INET6", '("::1", int(os.environ["TCP6"]))')),
    Attempt("X03", "UDP to the host", "py", _connects("INET", '("127.0.0.1", int(os.environ["UDP4"]))', "DGRAM")),
    Attempt(
        "X04",
        "an interface of the host",
        "py",
        """import socket
raise SystemExit(all(name == "lo" for _, name in socket.if_nameindex()))""",
    ),
    Attempt("X05", "an abstract socket of the host", "py", _connects("UNIX", 'b"\\0" + os.environ["WORLD"].encode()')),
    Attempt(
        "X06", "a socket in the home folder", "py", _connects("UNIX", 'os.path.relpath(os.environ["HOME"] + "/s")')
    ),
    Attempt("X07", "a socket in the working folder", "py", _connects("UNIX", '"s"')),
    Attempt("X08", "a socket in /run", "py", _connects("UNIX", 'os.environ["RUN_SOCKET"]'), off="root"),
    Attempt(
        "X09",
        "a datagram from a pair of sockets",
        "py",
        """import socket
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
a.sendto(b"x", "datagrams")""",
    ),
    Attempt("X10", "sockets of virtual machines", "py", "import socket; socket.socket(40, socket.SOCK_STREAM)"),
    Attempt("X11", "packets", "py", "import socket; socket.socket(17, socket.SOCK_RAW, 768)", off="root"),
    Attempt(
        "X12", "io_uring", "py", _LIBC + "raise SystemExit(libc.syscall(425, 8, ctypes.create_string_buffer(120)) < 0)"
    ),
    Attempt(
        "X13",
        "a socket by the 32-bit entry",
        "py",
        """import ctypes, mmap, os, platform, signal
if platform.machine() != "x86_64": raise SystemExit(1)
code = bytes.fromhex("53 b8 67010000 bb 01000000 b9 01000000 31d2 cd80 5b c3".replace(" ", ""))
page = mmap.mmap(-1, 4096, prot=7); page.write(code)
call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
raise SystemExit(call() < 0)""",
    ),
    Attempt(
        "X14",
        "a socket by its x32 number",
        "py",
        _LIBC + "raise SystemExit(libc.syscall(0x40000029, 1, 1, 0) < 0)",
        off="nobody",
    ),
    Attempt(
        "X15",
        "input for a terminal",
        "py",
        """import fcntl
refused = 0
for fd in range(3):
    for request in (0x5412, 0x541C):
        try: fcntl.ioctl(fd, request, b"\\x0cx")
        except OSError as error: refused += error.errno == 1
raise SystemExit(refused == 6)""",
    ),
    Attempt(
        "X16",
        "a datagram to a socket that appears during the command",
        "py",
        """import os, socket, time
os.close(os.open("knock", os.O_RDONLY))  # outside, the socket is made now
for _ in range(500):
    if os.path.exists("late"): break
    time.sleep(0.01)
a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
a.sendto(b"x", "late")""",
    ),
    Attempt("P05", "see another process", "sh", "grep -qs $VICTIM_NAME /proc/$VICTIM/cmdline"),
    Attempt(
        "P06",
        "trace the first process, and so outlive the sandbox",
        "py",
        _LIBC + "raise SystemExit(libc.ptrace(0x4206, 1, 0, 0) != 0)",
        off="nobody",
    ),
    Attempt(
        "P07",
        "limits of another process",
        "py",
        """import os, resource
resource.prlimit(int(os.environ["VICTIM"]), resource.RLIMIT_NOFILE, (64, 64))""",
    ),
    Attempt("P08", "priority of another process", "sh", f"renice {_NICE + 1} -p $VICTIM"),
    Attempt(
        "P09",
        "processors of another process",
        "py",
        """import os
os.sched_setaffinity(int(os.environ["VICTIM"]), {0})""",
    ),
    Attempt(
        "P10",
        "scheduling of another process",
        "py",
        """import os
os.sched_setscheduler(int(os.environ["VICTIM"]), os.SCHED_BATCH, os.sched_param(0))""",
    ),
    Attempt("P11", "disk priority of another process", "sh", "ionice -c 2 -n 7 -p $VICTIM"),
    Attempt(
        "P12",
        "priority of all processes of the user",
        "py",
        _LIBC + f"libc.setpriority(2, 0, {_NICE + 1})",
        f'test "$(cut -d" " -f19 /proc/$VICTIM/stat)" -gt {_NICE}',
        "nobody",
    ),
    # What would disturb the others comes last.
    Attempt("S13", "kill another process", "sh", "grep -qs $VICTIM_NAME /proc/$VICTIM/cmdline && kill -9 $VICTIM"),
    Attempt(
        "S06",
        "move hidden folders, then read",
        "sh",
        "mv ~/.ssh ~/x; cat ~/x/id_rsa; mv ~/.pi ~/y; cat ~/y/agent/auth.json",
        SECRET,
    ),
    Attempt("W15", "move the working folder", "sh", 'mv "$PWD" ~/moved', 'test -e "$HOME/moved"'),
    Attempt("W14", "move the home folder", "sh", "mv ~ ~/../moved", '! test -d "$HOME"'),
)
"""The attempts that run in one batch."""

INSIDE: Final[Sequence[Attempt]] = (
    Attempt("A03", "write in the working folder", "sh", "echo a > a03", 'test -s "$PROJECT/a03"'),
    Attempt(
        "A04", "temporary files and here-documents", "sh", 't=$(mktemp) && cat <<< text > "$t" && grep -q text "$t"'
    ),
    Attempt("A05", "commit", "sh", "git add file && git commit -qm x"),
    Attempt(
        "A06",
        "a server and a client on the loopback",
        "py",
        """import socket
server = socket.create_server(("127.0.0.1", 0))
client = socket.create_connection(server.getsockname()); client.send(b"x")
raise SystemExit(server.accept()[0].recv(1) != b"x")""",
    ),
    Attempt(
        "A07",
        "pairs of sockets and multiprocessing",
        "py",
        """import multiprocessing, socket
socket.socketpair(); socket.socketpair(type=socket.SOCK_SEQPACKET)
queue = multiprocessing.get_context("fork").SimpleQueue(); multiprocessing.get_context("fork").Lock()
queue.put(1); raise SystemExit(queue.get() != 1)""",
    ),
    Attempt("A08", "a pseudo-terminal", "sh", "script -qc 'test -t 0' /dev/null"),
    Attempt("A09", "a script of a skill", "sh", 'sh "$AGENT/skills/s/run.sh"'),
    Attempt("A13", "read the session file", "sh", 'grep -q session "$PI_SESSION_FILE"'),
    Attempt("A15", "read an extension", "sh", 'cat "$AGENT/extensions/kept.py"'),
    Attempt("A16", "begin in the working folder", "sh", '[ "$BEGAN" = "$PROJECT" ]'),
    Attempt("A14", "/var/tmp", "sh", "echo x > /var/tmp/a14 && grep -q x /var/tmp/a14 && rm /var/tmp/a14"),
)
"""What must work, in one batch."""

READ_ONLY_GAPS: Final = frozenset({"A03", "A05"})
"""What does not work in mode `read-only`, by intention."""

LANDLOCK_GAPS: Final[Mapping[str, str]] = {
    "N18": "namespaces are the host's: its name and its control group are visible",
    "N19": "names below /run are visible, what they contain is not",
    "X04": "interfaces of the host are visible",
    "P05": "processes outside are visible, and can't be signalled or traced",
    "A03": "no new entry directly in the working folder",
    "A05": "`.git` is read-only",
    "A06": "no loopback while the network is off",
    "A07": "semaphores of System V and POSIX are refused",
    "A14": "/var/tmp is not writable",
}
"""What Landlock does not prevent, or does not allow."""

LANDLOCK_GAPS_OF_WRITING: Final[Mapping[str, str]] = {
    "W19": "modes, times and attributes of files are none of Landlock's rights, and builds need the system calls",
}
"""What it does not prevent in mode `workspace-write` alone."""
