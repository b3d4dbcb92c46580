"""Agents that are forked: equal to those of a new interpreter, unaware of each other, independent of the zygote."""

import os
import re
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import trio
from tests.rpc.host.conftest import LIMIT_S, Talk, status_of
from tests.source_tree import PYTHONPATH
from tests.test_layout import MODULES, imported, module_name

from pinnace_rpc.host.agents import zygote
from pinnace_rpc.host.agents.fresh import FreshStarter
from pinnace_rpc.host.agents.ports import AgentLaunch, AgentStartError
from pinnace_rpc.host.agents.zygote import ZygoteStarter, can_fork, start_only
from pinnace_rpc.host.agents.zygote_program import NOT_LOADED, OPTIONAL, ROOMS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere agents are not forked")

KEY = "sk-of-the-first-agent-alone"
MEMORY = 8 * 1024**3


class Zygotes:
    """A starter with a zygote that serves."""

    def __init__(self, starter: ZygoteStarter) -> None:
        self.starter = starter

    async def pid(self) -> int:
        with trio.fail_after(LIMIT_S):
            return await self.starter.zygote_pid()

    async def start(self, start: AgentLaunch) -> Talk:
        return Talk(await self.starter.start(start))


@pytest.fixture
async def zygotes(nursery: trio.Nursery, start: AgentLaunch) -> Zygotes:
    """Forks agents of the source tree."""
    zygotes = Zygotes(ZygoteStarter(nursery, start.environment, memory_bytes=MEMORY))
    await zygotes.pid()
    return zygotes


def with_variable(start: AgentLaunch, name: str, value: str) -> AgentLaunch:
    return start._replace(environment={**start.environment, name: value})


async def description(talk: Talk) -> dict[str, object]:
    """Return what a new interpreter and a forked one have in common."""
    pid = talk.process.pid
    environment = await talk.shell("env | grep -v ^PINNACE_COMMAND= | sort; pwd; ulimit -v; date +%Z")
    state = (await talk.ask(id="1", type="get_state"))["data"]
    status = status_of(pid)
    return {
        "state": {name: value for name, value in state.items() if name not in ("sessionId", "pid")},
        "commands": environment,
        "handled": [status[name] for name in ("SigBlk", "SigIgn", "SigCgt", "Umask", "NoNewPrivs")],
        "of its commands": re.findall("Sig(?:Blk|Ign|Cgt).*|Umask.*", await talk.shell("cat /proc/self/status")),
        "is its own group": os.getsid(pid) == os.getpgid(pid) == pid,
        "descriptors": [len(os.listdir(f"/proc/{pid}/fd"))],
        "folder": os.readlink(f"/proc/{pid}/cwd"),
    }


async def test_a_forked_agent_equals_one_of_a_new_interpreter(
    zygotes: Zygotes, nursery: trio.Nursery, start: AgentLaunch
) -> None:
    start = with_variable(start, "TZ", "Etc/GMT-7")
    fresh = Talk(await FreshStarter(nursery, memory_bytes=MEMORY).start(start))
    forked = await zygotes.start(start)

    assert int(status_of(forked.process.pid)["PPid"]) == await zygotes.pid()
    assert await description(fresh) == await description(forked)
    assert [0, 0] == [await each.end() for each in (fresh, forked)]
    refused = await zygotes.start(start._replace(arguments=("--no-such-option-here", "x")))
    assert 2 == await refused.end()
    assert "no-such-option-here" in refused.process.stderr_tail()
    with pytest.raises(AgentStartError, match="no-such-folder"):
        await zygotes.starter.start(start._replace(cwd="/no-such-folder"))


async def test_an_agent_holds_nothing_of_another_agents_environment(zygotes: Zygotes, start: AgentLaunch) -> None:
    first = await zygotes.start(with_variable(start, "FIRST_API_KEY", KEY))
    assert KEY in await first.shell("cat /proc/self/environ")
    second = await zygotes.start(start)
    mark = "echo $PINNACE_COMMAND"

    assert KEY not in await second.shell("env")
    assert not holds(second.process.pid, KEY.encode())
    assert not holds(await zygotes.pid(), KEY.encode())
    assert (await first.shell(mark)).partition(".")[2] != (await second.shell(mark)).partition(".")[2]
    assert [0, 0] == [await each.end() for each in (first, second)]


def holds(pid: int, data: bytes) -> bool:
    """Return whether a process has some bytes in its memory, which only root may read of an agent."""
    if os.geteuid() != 0:
        return False
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            begin, end = (int(each, 16) for each in line.split()[0].split("-"))
            if "rw-p" in line:
                memory.seek(begin)
                if data in memory.read(end - begin):
                    return True
    return False


async def test_agents_outlive_a_killed_zygote_and_the_next_ones_have_a_new_one(
    zygotes: Zygotes, start: AgentLaunch
) -> None:
    agent = await zygotes.start(start)
    former = await zygotes.pid()

    os.kill(former, signal.SIGKILL)

    assert (await agent.ask(id="1", type="get_state"))["success"] is True
    between = await zygotes.start(start)
    assert (await between.ask(id="1", type="get_state"))["success"] is True
    assert 0 == await between.end()
    assert await agent.end() in (None, 0)
    assert former != await zygotes.pid()
    after = await zygotes.start(start)
    assert int(status_of(after.process.pid)["PPid"]) == await zygotes.pid()
    after.process.kill()
    assert -signal.SIGKILL == await after.ended()


async def burst(starter: ZygoteStarter, start: AgentLaunch, size: int) -> tuple[int, int]:
    """Start agents at the same time; return how many had a new interpreter, and how many were forked."""
    agents: list[Talk] = []

    async def begin() -> None:
        agent = Talk(await starter.start(start))
        agents.append(agent)
        assert (await agent.ask(id="1", type="get_state"))["success"] is True

    with trio.fail_after(2 * LIMIT_S):
        async with trio.open_nursery() as nursery:
            for _ in range(size):
                nursery.start_soon(begin)
    fresh = sum(os.getpid() == int(status_of(each.process.pid)["PPid"]) for each in agents)
    for each in agents:
        await each.end()
    return fresh, size - fresh


async def test_agents_of_a_burst_wait_for_the_zygote_that_loads(
    nursery: trio.Nursery, start: AgentLaunch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a host begins, after a crash of the zygote, and after an upgrade; the first two do not wait."""
    monkeypatch.setattr(zygote, "WAIT_S", LIMIT_S)  # a busy machine may load for longer
    monkeypatch.setattr(zygote, "RETRY_DELAYS_S", zygote.RETRY_DELAYS_S[:1])
    installed = tmp_path / "installed"
    installed.mkdir()
    start = with_variable(start, "PYTHONPATH", f"{PYTHONPATH}{os.pathsep}{installed}")
    zygotes = Zygotes(ZygoteStarter(nursery, start.environment))

    assert (2, 4) == await burst(zygotes.starter, start, 6)
    assert (0, 2) == await burst(zygotes.starter, start, 2)

    os.kill(await zygotes.pid(), signal.SIGSTOP)  # so that it takes no request before the next signal ends it
    os.kill(await zygotes.pid(), signal.SIGKILL)
    assert (2, 1) == await burst(zygotes.starter, start, 3)

    await zygotes.pid()
    (installed / "another.py").touch()
    assert (2, 1) == await burst(zygotes.starter, start, 3)


async def test_agents_do_not_wait_for_a_zygote_that_fails(
    nursery: trio.Nursery, start: AgentLaunch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zygote, "_PROGRAM", "no_such_module")
    monkeypatch.setattr(zygote, "WAIT_S", LIMIT_S * 10)

    assert (4, 0) == await burst(ZygoteStarter(nursery, start.environment), start, 4)


async def test_variables_that_only_a_start_applies_have_a_new_interpreter(zygotes: Zygotes, start: AgentLaunch) -> None:
    agent = await zygotes.start(with_variable(start, "LC_ALL", "POSIX"))

    assert os.getpid() == int(status_of(agent.process.pid)["PPid"])
    assert 0 == await agent.end()


def test_variables_that_only_a_start_applies_are_recognised() -> None:
    names = "PYTHONPATH LD_PRELOAD DYLD_X MALLOC_ARENA_MAX OPENSSL_CONF LC_ALL LANG LANGUAGE GLIBC_TUNABLES".split()
    others = "PATH ANTHROPIC_API_KEY TZ SSL_CERT_FILE PI_OFFLINE".split()

    assert set(names) == set(start_only(dict.fromkeys((*names, *others), "x"))) - {"HOME"}


def test_relative_paths_of_modules_keep_agents_from_being_forked() -> None:
    assert can_fork({"PYTHONPATH": "/a:/b"})
    assert not can_fork({"PYTHONPATH": "/a:lib"})
    assert not can_fork({"PYTHONPATH": "/a:"})


NEVER = (
    "pinnace_rpc.batch",
    "pinnace_rpc.print_mode",
    "pinnace_rpc.acp",
    "pinnace_rpc.attach",
    "pygments.formatter.Formatter",
    "annotationlib",
)
"""Other modes; names for annotations; what a newer Python has."""

REQUEST = """
import json, os, socket, sys, threading
from pinnace_rpc.host.agents import zygote_messages, zygote_program
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
identity = zygote_program.identity()
{change}
zygote = zygote_program.Zygote(theirs.detach(), identity)
zygote_messages.send(ours, {{"fork": 1}}, [0, 0, 0, 0])
ours.shutdown(socket.SHUT_WR)
assert zygote.serve() is None
assert zygote_messages.receive(ours) == ({{"ready": 1}}, [])
print(json.dumps(zygote_messages.receive(ours)[0]), flush=True)
os._exit(0)
"""


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("threading.Thread(target=threading.Event().wait).start()", "thread"),
        ("identity[sys.executable] = 'another file'", "replaced"),
        ("del identity[zygote_program.__file__]", "replaced"),
    ],
)
def test_a_zygote_does_not_fork(change: str, reason: str) -> None:
    """Where a lock may be held by another thread, and where later imports would join modules of two releases."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", REQUEST.format(change=change)],
        env={"PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        check=True,
    )

    assert '{"refused": 1' in done.stdout
    assert reason in done.stdout


def test_all_that_an_agent_may_import_is_loaded_before_a_fork() -> None:
    """In functions, too, but for what is installed with an extra, and modules of other systems."""
    program = (
        "import sys; from pinnace_rpc.host.agents.zygote_program import preload; preload(); print(*sys.modules);"
        "import os; print(len(os.listdir('/proc/self/task')), file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", program],
        env={"PYTHONPATH": PYTHONPATH},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    missing = {
        name
        for module in MODULES
        if module_name(module).startswith(ROOMS) and module_name(module) in loaded
        for name in imported(module.read_text(encoding="utf-8"))
        if name not in loaded and name.rpartition(".")[0] not in loaded
    }

    assert "1" == done.stderr.strip()
    assert set() == {name for name in missing if not name.startswith((*NOT_LOADED, *OPTIONAL, *NEVER))}


def test_a_zygote_needs_no_library_that_an_extra_brings(tmp_path: Path) -> None:
    """It loads the rest: with a plain `pip install .`, too, agents are forked."""
    extras = ("PIL", "httpx2", "mcp", "mcp_types", "opentelemetry")
    installed = tmp_path / "installed"
    installed.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not path.name.startswith(extras):
            (installed / path.name).symlink_to(path)
    program = (
        "import importlib.util, sys; from pinnace_rpc.host.agents.zygote_program import preload; preload();"
        f"assert not any(importlib.util.find_spec(name) for name in {extras}); print(*sys.modules)"
    )

    done = subprocess.run(
        [sys.executable, "-P", "-S", "-c", program],
        env={"PYTHONPATH": f"{PYTHONPATH}{os.pathsep}{installed}"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert {"pinnace_agent.mcp.extension", "pinnace_rpc.server.startup"} <= set(done.stdout.split())
