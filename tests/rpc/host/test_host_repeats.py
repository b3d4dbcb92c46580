"""Commands that a named client repeats: each is executed at most once, whatever has crashed between."""

import errno
import hashlib
import os
import random
import resource
import signal
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.rpc.host.attached import OFFLINE, WITHOUT_RESTART, Connection, HostProcess, Record, environment_of, started

from pinnace_fuzz.process_tree import parent_of
from pinnace_fuzz.simulation.disk import Disk, DiskFaults
from pinnace_rpc.host import table as table_module
from pinnace_rpc.host.protocol import AgentAction, Ended, ListAgents
from pinnace_rpc.host.table import CommandTable

BASH = {"id": "b", "type": "bash", "command": "echo x >> ran"}
PROMPT = {"id": "p", "type": "prompt", "message": "hi"}


def agent_pid(host: HostProcess) -> int:
    (row,) = host.ask(ListAgents(watches=False))["agents"]
    pid: int = row["pid"]
    return pid


def named(host: HostProcess) -> Connection:
    return host.attach(client="ide", has_cursors=True, start=())


def ran(host: HostProcess) -> str:
    path = host.folder / "ran"
    return path.read_text() if path.exists() else ""


def test_an_answered_command_is_answered_again_and_not_executed(host: HostProcess) -> None:
    with host.attach(client="ide", has_cursors=True) as first:
        assert not first.record()["knownClient"]
        answer = first.ask(BASH)
    with named(host) as again:
        assert again.record()["knownClient"]
        assert again.ask(BASH) == answer
        assert again.ask({**BASH, "command": "echo y >> ran"})["errorCode"] == "id_reused"
        assert again.ask({"id": "s", "type": "get_state"})["success"]
        assert again.ask({"id": "s", "type": "get_messages"})["success"]  # reads are not kept
    assert ran(host) == "x\n"


def test_a_client_whose_commands_can_not_be_kept_is_refused_with_the_reason(host: HostProcess) -> None:
    """One that is attached keeps its connection."""
    with host.attach() as other:
        assert other.ask({"id": "s", "type": "get_state"})["success"]
        (agent_folder,) = host.folder.rglob("host/agents/main")
        (agent_folder / "clients").mkdir(mode=0o700)
        (agent_folder / "clients" / f"{hashlib.sha256(b'ide').hexdigest()[:32]}.jsonl").mkdir()
        refused = host.refusal(host.request(agent="main", client="ide"))

        assert f"{agent_folder}: the client's commands can't be kept: " in refused.error
        assert other.ask({"id": "again", "type": "get_state"})["success"]


def test_a_command_in_progress_is_answered_to_the_connection_that_repeats_it(host: HostProcess) -> None:
    """The former one is half open: it is replaced."""
    gate = host.folder / "gate"
    os.mkfifo(gate)
    command = {**BASH, "command": f"echo x >> ran; read line < {gate}; echo $line"}
    with host.attach(client="ide", has_cursors=True) as first:
        first.record()
        first.send(command)
        while not ran(host):
            pass
        with named(host) as again:
            again.record()
            again.send(command)
            assert first.ended().exit_code == 75
            gate.write_text("open\n")
            assert again.until(type="response")[-1]["data"]["output"] == "open\n"
            assert again.ask({"id": "s", "type": "get_state"})["success"]
    assert ran(host) == "x\n"


def test_a_command_that_a_crash_of_the_agent_cut_is_unknown_for_ever(host: HostProcess) -> None:
    with host.attach(client="ide", has_cursors=True) as connection:
        connection.record()
        os.kill(agent_pid(host), signal.SIGSTOP)
        connection.send(BASH, {"id": "n", "type": "set_session_name", "name": "N"}, {"id": "r", "type": "get_state"})
        connection.send({"id": "unknown", "type": "no_such_command"})
        while len(table_lines(host)) < 2:  # the first command was sent to the agent before the second one was kept
            pass
        os.kill(agent_pid(host), signal.SIGKILL)
        answers = connection.until(id="r")
        assert [each["errorCode"] for each in answers if each.get("id") == "b"] == ["outcome_unknown"]
        assert answers[-1]["success"]  # a read is executed by the next process
        assert connection.ask(BASH)["errorCode"] == "outcome_unknown"
    assert ran(host) == ""


def test_a_command_that_waits_for_the_agent_is_answered_to_the_connection_that_repeats_it(folder: Path) -> None:
    """It has begun, so it is executed, though the connection that it came from has ended before the agent was there."""
    with (
        started(folder, environment_of(folder), program=WITHOUT_RESTART) as host,
        host.attach(client="ide", has_cursors=True) as first,
    ):
        first.record()
        os.kill(agent_pid(host), signal.SIGKILL)
        while host.ask(ListAgents(watches=False))["agents"][0]["state"] != "backing_off":
            pass
        first.send(BASH)
        while not table_lines(host):
            pass
        with named(host) as again:
            ended = first.control()  # the connection itself ends when its command has been given to the agent
            assert isinstance(ended, Ended)
            assert ended.exit_code == 75
            again.send(BASH)
            host.ask(AgentAction("restart", "main"))
            assert again.until(type="response")[-1]["success"]
            assert again.ask({"id": "s", "type": "get_state"})["success"]
        assert ran(host) == "x\n"


@pytest.mark.parametrize("is_closed", [False, True], ids=["replaced", "closed"])
def test_a_connection_that_has_ended_takes_no_answer_from_the_one_that_repeats_its_commands(
    folder: Path, is_closed: bool
) -> None:
    """What it had sent behind a command that waited for the agent is read by the host after the end, and counts not."""
    waiting, unread = BASH, {**PROMPT, "messageId": "m"}
    with (
        started(folder, environment_of(folder), program=WITHOUT_RESTART) as host,
        host.attach(client="ide", has_cursors=True) as first,
    ):
        first.record()
        os.kill(agent_pid(host), signal.SIGKILL)
        while host.ask(ListAgents(watches=False))["agents"][0]["state"] != "backing_off":
            pass
        first.send_together(waiting, unread)
        while not table_lines(host):
            pass
        if is_closed:
            first.socket.close()
        with named(host) as again:
            again.send(waiting, unread)
            while len(table_lines(host)) < 2:
                pass
            host.ask(AgentAction("restart", "main"))
            seen = again.until(type="agent_settled")
            assert [each["success"] for each in seen if each.get("id") == "p"] == [True]
        assert ran(host) == "x\n"


def test_a_line_that_has_begun_is_written_completely(host: HostProcess) -> None:
    """The agent stands still, and its pipe is full, when the connection of the command ends."""
    prompt = {**PROMPT, "message": "x" * 2**20}
    with host.attach(client="ide", has_cursors=True) as first:
        first.record()
        pid = agent_pid(host)
        os.kill(pid, signal.SIGSTOP)
        first.send(prompt)
        while not table_lines(host):
            pass
        with named(host) as again:
            assert isinstance(first.control(), Ended)
            os.kill(pid, signal.SIGCONT)
            again.send(prompt)
            assert again.until(id="p")[-1]["success"]
            assert again.ask({"id": "s", "type": "get_state"})["success"]


def table_lines(host: HostProcess) -> list[bytes]:
    files = [*(host.folder / "agent" / "host" / "agents" / "main" / "clients").glob("*.jsonl")]
    return files[0].read_bytes().splitlines() if files else []


def test_a_message_that_a_crash_cut_is_sent_again(host: HostProcess) -> None:
    """The session decides by its messageId, which the host has made from the client's name and id."""
    with host.attach(client="ide", has_cursors=True) as connection:
        connection.record()
        os.kill(agent_pid(host), signal.SIGSTOP)
        connection.send(PROMPT)
        while not table_lines(host):
            pass
        os.kill(agent_pid(host), signal.SIGKILL)
        seen = connection.until(type="agent_settled")
        assert [each["success"] for each in seen if each.get("id") == "p"] == [True]
        state = connection.ask({"id": "s", "type": "get_state"})["data"]
        assert state["messageCount"] == 2


@pytest.mark.usefixtures("fresh_agents")  # the next process has the limit of the host
def test_a_message_that_the_next_process_cannot_save_has_an_unknown_outcome(folder: Path) -> None:
    """The former process may have saved it. Once the disk takes it, the session decides a repetition."""
    environment = {**environment_of(folder), "PYTHONDONTWRITEBYTECODE": "1"}  # a full disk cuts such files
    with started(folder, environment) as host, host.attach(client="ide", has_cursors=True) as connection:
        path = Path(connection.record()["sessionFile"])
        connection.send({**PROMPT, "id": "first"})
        connection.until(type="agent_settled")
        pid = agent_pid(host)
        os.kill(pid, signal.SIGSTOP)
        count = len(table_lines(host))
        connection.send(PROMPT)
        while len(table_lines(host)) == count:
            pass
        with full_disk(host, pid, path.stat().st_size):
            os.kill(pid, signal.SIGKILL)
            answer = connection.until(type="response", id="p")[-1]
            assert (answer["success"], answer["errorCode"]) == (False, "outcome_unknown")
        os.kill(agent_pid(host), signal.SIGKILL)
        connection.until(type="agent_restarted", epoch=3)
        connection.send(PROMPT)
        seen = connection.until(type="agent_settled")
        assert [each["success"] for each in seen if each.get("id") == "p"] == [True]
        assert connection.ask({"id": "s", "type": "get_state"})["data"]["messageCount"] == 4


@contextmanager
def full_disk(host: HostProcess, agent: int, size: int) -> Generator[None]:
    """Let no file grow beyond a size that a process writes which the host starts meanwhile."""
    starters = {host.process.pid, parent_of(agent)}
    for pid in starters:
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, hard))
    yield
    for pid in starters:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard, hard))


HANG = {"id": "go", "type": "prompt", "message": "run `cat gate`"}
FOLLOW_UP = {"id": "f", "type": "follow_up", "message": "later", "messageId": "m"}
CLEAR = {"id": "c", "type": "clear_queue"}
CLEARED = {"steering": [], "followUp": ["later"]}


def queue_a_message(host: HostProcess, connection: Connection) -> None:
    """Queue it behind a run that does not end."""
    os.mkfifo(host.folder / "gate")
    connection.record()
    connection.send(HANG)
    connection.until(type="tool_execution_start")
    assert connection.ask(FOLLOW_UP)["data"]["disposition"] == "queued"


def test_a_clear_queue_that_a_crash_cut_returns_the_same_messages(host: HostProcess) -> None:
    """R-QUE-17: the host sends it again to the next process, and a client that dies repeats it."""
    with host.attach(client="ide", has_cursors=True) as connection:
        queue_a_message(host, connection)
        os.kill(agent_pid(host), signal.SIGSTOP)
        count = len(table_lines(host))
        connection.send(CLEAR)
        while len(table_lines(host)) == count:
            pass
        os.kill(agent_pid(host), signal.SIGKILL)
        assert connection.until(id="c")[-1]["data"] == CLEARED
        assert (
            connection.ask({"id": "q", "type": "get_queue", "returned": True})["data"]["returned"][0]["text"] == "later"
        )
    with named(host) as again:
        again.record()
        assert again.ask(CLEAR)["data"] == CLEARED


def test_a_clear_queue_whose_answer_a_crash_of_the_host_lost_returns_the_same_messages(folder: Path) -> None:
    """R-QUE-17: the table of the host has that it was begun, the session what it has returned."""
    with started(folder, environment_of(folder)) as host:
        with host.attach(client="ide", has_cursors=True) as connection:
            queue_a_message(host, connection)
            assert connection.ask(CLEAR)["data"] == CLEARED
        host.process.kill()
        host.process.wait()
        [path] = (folder / "agent" / "host" / "agents" / "main" / "clients").glob("*.jsonl")
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join(lines[:-1]))  # a crash between the agent's answer and the host's writing
    with started(folder, environment_of(folder)) as host, host.attach(client="ide", has_cursors=True) as connection:
        assert connection.record()["knownClient"]
        assert connection.ask(CLEAR)["data"] == CLEARED


def test_a_profile_without_names_of_commands_has_none_sent_again(host: HostProcess) -> None:
    """Its agent would not recognise them, and would deliver a message twice."""
    with host.attach(
        client="ide", has_cursors=True, start=(*OFFLINE, "--protocol", "seed"), profile="seed"
    ) as connection:
        connection.record()
        os.kill(agent_pid(host), signal.SIGSTOP)
        connection.send(PROMPT, {"id": "n", "type": "set_session_name", "name": "N"})
        while len(table_lines(host)) < 2:  # the first command was sent to the agent before the second one was kept
            pass
        os.kill(agent_pid(host), signal.SIGKILL)
        assert connection.until(id="p")[-1]["errorCode"] == "outcome_unknown"
        assert connection.ask(PROMPT)["errorCode"] == "outcome_unknown"


def test_a_crash_of_the_host_leaves_a_command_unknown(folder: Path) -> None:
    with started(folder, environment_of(folder)) as host:
        with host.attach(client="ide", has_cursors=True) as connection:
            connection.record()
            answer = connection.ask({"id": "n", "type": "set_session_name", "name": "one"})
            pid = agent_pid(host)
            os.kill(pid, signal.SIGSTOP)
            connection.send(BASH)
            while len(table_lines(host)) < 3:
                pass
            host.process.kill()
            host.process.wait()
        os.kill(pid, signal.SIGKILL)
    with started(folder, environment_of(folder)) as host, host.attach(client="ide", has_cursors=True) as connection:
        assert connection.record()["knownClient"]
        assert connection.ask(BASH)["errorCode"] == "outcome_unknown"
        assert connection.ask({"id": "n", "type": "set_session_name", "name": "one"}) == answer
        assert ran(host) == ""


async def test_the_newest_answers_are_kept(tmp_path: Path) -> None:
    """And every command without an answer, however old."""
    table = CommandTable(str(tmp_path), "ide")
    count = 2 * table_module.KEPT + 1
    for number in range(count):
        await table.begin(str(number), {"type": "x"}, is_synced=False)
        if number != 3:
            table.answer(str(number), b'{"id":"%d"}\n' % number)
    for each in (table, CommandTable(str(tmp_path), "ide")):
        known = [
            number for number in range(count) if each.look_up(str(number), {"type": "x"}, is_lasting=True) != "new"
        ]
        assert known == [3, *range(count - table_module.KEPT, count)]
        assert each.response(str(count - 1)) == b'{"id":"%d"}\n' % (count - 1)


async def test_a_half_written_line_is_removed(tmp_path: Path) -> None:
    table = CommandTable(str(tmp_path), "ide")
    await table.begin("1", {"type": "x"}, is_synced=True)
    table.answer("1", b'{"id":"1"}\n')
    table.close()
    (path,) = (tmp_path / "clients").iterdir()
    path.write_bytes(path.read_bytes() + b'{"id":"\\"2')
    again = CommandTable(str(tmp_path), "ide")
    assert again.look_up("1", {"id": "1", "type": "x"}, is_lasting=False) == "answered"
    await again.begin("2", {"type": "y"}, is_synced=False)
    again.close()
    assert CommandTable(str(tmp_path), "ide").look_up("2", {"type": "y"}, is_lasting=True) == "begun"


async def test_a_command_whose_beginning_could_not_be_flushed_is_not_known(tmp_path: Path) -> None:
    """A repetition begins anew: it waits for no response of one that was refused."""
    disk = Disk(tmp_path, random.Random(0), DiskFaults(flush_error=1.0), lambda _: None)
    table = CommandTable(str(tmp_path), "ide", disk.begin())

    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        await table.begin("1", {"type": "x"}, is_synced=True)

    assert "new" == table.look_up("1", {"type": "x"}, is_lasting=True)


@pytest.mark.parametrize("hosts", ["one host", "two hosts"])
async def test_what_is_begun_behind_a_failed_flush_outlives_a_loss_of_power(tmp_path: Path, hosts: str) -> None:
    """The system takes for written what a flush has failed to write, and a later one writes nothing of it."""
    fields = {"type": "x"}
    for seed in range(20):
        root = tmp_path / str(seed)
        root.mkdir()
        disk = Disk(root, random.Random(seed), DiskFaults(), lambda _: None)
        process = disk.begin()
        table = CommandTable(str(root), "ide", process)
        await table.begin("1", fields, is_synced=True)
        table.answer("1", b'{"id":"1","data":"%b"}\n' % (b"x" * 6_000))
        disk.faults = DiskFaults(flush_error=1.0)
        with pytest.raises(OSError, match=os.strerror(errno.EIO)):
            await table.begin("2", fields, is_synced=True)
        disk.faults = DiskFaults()
        if hosts == "two hosts":
            table.close()
            table = CommandTable(str(root), "ide", process)
        await table.begin("3", fields, is_synced=True)
        table.close()
        process.stop()
        process.close_all()
        left = sorted(os.path.splitext(name)[1] for name in disk.contents())
        disk.lose_power()
        process = disk.begin()
        known = CommandTable(str(root), "ide", process)

        assert ["answered", "begun"] == [known.look_up(each, fields, is_lasting=True) for each in ("1", "3")]
        assert [".jsonl"] == left
        process.close_all()


async def test_a_command_that_the_disk_does_not_take_is_known_while_it_is_executed(tmp_path: Path) -> None:
    """A repetition meanwhile waits for the same response; the session decides on a later one."""
    fields = {"type": "steer", "message": "x"}
    disk = Disk(tmp_path, random.Random(0), DiskFaults(), lambda _: None)
    table = CommandTable(str(tmp_path), "ide", disk.begin())
    known: list[str] = []
    disk.faults = DiskFaults(no_space=1.0)
    await table.begin("1", fields, is_synced=False)
    known.append(table.look_up("1", fields, is_lasting=True))
    disk.faults = DiskFaults()
    table.answer("1", b'{"id":"1"}\n')
    known.append(table.look_up("1", fields, is_lasting=True))
    await table.begin("2", fields, is_synced=False)
    known.append(CommandTable(str(tmp_path), "ide").look_up("2", fields, is_lasting=True))

    assert ["in progress", "new", "begun"] == known


async def test_an_answer_outlives_a_loss_of_power_only_with_what_it_says(tmp_path: Path) -> None:
    """Of a command whose change need not be on the disk, the next boot of the machine knows that it has begun."""
    first = CommandTable(str(tmp_path), "ide", boot="first")
    count = 2 * table_module.KEPT  # the last answer writes the file anew
    for number in range(count):
        await first.begin(number, {"type": "x"}, is_synced=False)
        first.answer(number, b'{"id":"1"}\n')
    first.close()

    next_one = CommandTable(str(tmp_path), "ide", boot="second")
    await next_one.begin("of the second", {"type": "x"}, is_synced=False)
    next_one.answer("of the second", b'{"id":"2"}\n')

    known = [
        [next_one.look_up(each, {"type": "x"}, is_lasting=is_lasting) for each in (count - 1, "of the second")]
        for is_lasting in (False, True)
    ]
    assert known == [["begun", "answered"], ["answered", "answered"]]
    assert next_one.response(count - 1) == b'{"id":"1"}\n'


@pytest.mark.parametrize("size", [10, table_module.MAX_RESPONSE_BYTES])
async def test_a_long_response_is_kept_without_its_data(tmp_path: Path, size: int) -> None:
    table = CommandTable(str(tmp_path), "ide")
    await table.begin("1", {"type": "x"}, is_synced=False)
    line = b'{"id":"1","success":true,"data":"%b"}\n' % (b"x" * size)
    table.answer("1", line)
    assert table.response("1") == (line if size == 10 else b'{"id":"1","success":true}\n')


def send_signal(pid: int, number: signal.Signals) -> None:
    """Send a signal to an agent, which may just have ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


class RepeatingClient:
    """A run of a client program: on each new connection it repeats all commands that are not answered.

    Checks that a connection gets one answer to each line that was sent on it, and none to any other.
    """

    def __init__(self, host: HostProcess, agent: str) -> None:
        self.host = host
        self.agent = agent
        self.connection: Connection | None = None
        self.open: dict[str, Record] = {}
        """Commands without an answer, by id."""
        self.unanswered: Counter[str] = Counter()
        """Lines that were sent on this connection, by id."""
        self._count = 0

    def connect(self) -> None:
        """Take the place of the former connection, which is read to its end."""
        former = self.connection
        self.connection = self.host.attach(self.agent, client="ide", has_cursors=True, start=())
        if former is not None:
            former.ended()
            for record in former.rest():
                self.take(record)
            former.socket.close()
        self.unanswered.clear()
        self.send(*self.open.values())

    def send(self, *commands: Record) -> None:
        assert self.connection is not None
        for command in commands:
            self.open[command["id"]] = command
            self.unanswered[command["id"]] += 1
        self.connection.send(*commands)

    def new(self, **fields: object) -> None:
        self._count += 1
        self.send({"id": f"c{self._count}", **fields})

    def take(self, record: Record) -> None:
        if record["type"] == "response":
            identity = record["id"]
            assert self.unanswered[identity] > 0, f"{record} was not asked for here, or is answered twice"
            self.unanswered[identity] -= 1
            self.open.pop(identity, None)

    def finish(self) -> None:
        """Read until everything is answered, and then until one command more is."""
        self.answer()
        self.new(type="get_state")
        self.answer()
        assert self.connection is not None
        self.connection.socket.close()

    def answer(self) -> None:
        """Read until everything is answered."""
        assert self.connection is not None
        while self.open:
            self.take(self.connection.record())

    def pid(self) -> int | None:
        for row in self.host.ask(ListAgents(watches=False))["agents"]:
            if row["name"] == self.agent:
                pid: int | None = row["pid"]
                return pid
        return None


MAX_KILLS = 2
"""The host waits for longer after each."""
STEPS = ("read", "bash", "message", "connect", "stop", "continue", "kill")


def test_each_connection_gets_one_answer_to_each_command_that_it_has_sent(host: HostProcess) -> None:
    """Whatever is repeated while the agent stands still, and whether its process is replaced meanwhile."""
    numbers = count()

    @settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
    @given(steps=st.lists(st.sampled_from(STEPS), min_size=3, max_size=10))
    @example(steps=["stop", "read", "connect", "continue"])
    @example(steps=["stop", "read", "bash", "message", "kill", "connect", "connect"])
    @example(steps=["stop", "read", "message", "connect", "kill", "read", "connect"])
    def play(steps: list[str]) -> None:
        name = f"a{next(numbers)}"
        with host.attach(name):
            client = RepeatingClient(host, name)
            client.connect()
            client.new(type="get_state")
            client.answer()
            stopped: int | None = None
            kills = 0
            for step in steps:
                match step:
                    case "read":
                        client.new(type="get_state")
                    case "bash":
                        client.new(type="bash", command="true")
                    case "message":
                        client.new(type="prompt", message="hi", streamingBehavior="steer")
                    case "connect":
                        client.connect()
                    case "stop" if stopped is None and (stopped := client.pid()) is not None:
                        send_signal(stopped, signal.SIGSTOP)
                    case "continue" if stopped is not None:
                        send_signal(stopped, signal.SIGCONT)
                        stopped = None
                    case "kill" if kills < MAX_KILLS and (pid := stopped or client.pid()) is not None:
                        send_signal(pid, signal.SIGKILL)
                        stopped = None
                        kills += 1
            if stopped is not None:
                send_signal(stopped, signal.SIGCONT)
            client.finish()
        host.ask(AgentAction("remove", name))

    play()
