"""Which session a process starts with, over real pipes: every flag, variable and setting, and what is refused.

Each agent lives in a home of its own with no flags but those of the test. A start that fails has asked nobody: its
stdin stays open and is not read. Rules R-SES-03, R-SES-06, R-SES-07, R-SES-09.
"""

import json
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.source_tree import PYTHONPATH

from pinnace_fuzz.harness.adapters import PreparedHome, prepare_pi_home
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.records import Record
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import HomedAgent
from pinnace_spec.session_format import validate_session

COMMAND = (sys.executable, "-P", "-m", "pinnace_rpc", "--mode", "rpc", "--provider", "fake", "--model", "m1")
MORE = {"text": "more", "repeat": -1}
SETTLED = {"type": "agent_settled"}
VARIABLE = "PI_CODING_AGENT_SESSION_DIR"


class Place:
    """A home in which agents are started, one after the other or at once."""

    def __init__(self, home: PreparedHome, llm: FakeLlm, stack: ExitStack) -> None:
        self.home = home
        self._llm = llm
        self._stack = stack

    @property
    def root(self) -> Path:
        """The folder of the folders of sessions."""
        return self.home.agent_dir / "sessions"

    def folder(self, name: str) -> Path:
        """Make a working folder."""
        path = self.home.root / name
        path.mkdir(parents=True, exist_ok=True)
        return path

    def settings(self, **settings: object) -> None:
        (self.home.agent_dir / "settings.json").write_text(json.dumps(settings))

    def start(self, *flags: str, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> HomedAgent:
        """Start an agent that is checked when the test is over."""
        pi = self._start(flags, cwd, env)
        self._stack.callback(pi.check_end)
        return pi

    def failure(self, *flags: str, code: int = 1, cwd: Path | None = None) -> str:
        """Start an agent that can't start; return what it says on stderr."""
        pi = self._start(flags, cwd, None)
        assert pi.wait_exit() == code
        assert pi.records == []
        return pi.stderr_text

    def _start(self, flags: Iterable[str], cwd: Path | None, env: Mapping[str, str] | None) -> HomedAgent:
        home = self.home._replace(work=cwd or self.home.work, env={**self.home.env, **(env or {})})
        return self._stack.enter_context(HomedAgent([*COMMAND, *flags], home, self._llm, profile="pi"))


@pytest.fixture
def place(llm: Callable[[Iterable[Scripted]], FakeLlm], tmp_path: Path) -> Iterator[Place]:
    model = llm([MORE])
    home = prepare_pi_home(tmp_path / "home", model.base_url, env={"PYTHONPATH": PYTHONPATH})
    with ExitStack() as stack:
        yield Place(home, model, stack)


def state(pi: HomedAgent) -> Record:
    return pi.ask("get_state")


def file_of(pi: HomedAgent) -> Path:
    return Path(state(pi)["sessionFile"])


def end(pi: HomedAgent) -> None:
    pi.close_stdin()
    assert pi.wait_exit() == 0


def session(place: Place, text: str, *flags: str, cwd: Path | None = None) -> Path:
    """Make a session with one prompt; return its file."""
    pi = place.start(*flags, cwd=cwd)
    pi.say(text)
    path = file_of(pi)
    end(pi)
    return path


def texts(pi: HomedAgent) -> list[str]:
    """Return what the user has said."""
    said = [message for message in pi.ask("get_messages")["messages"] if message["role"] == "user"]
    return [block["text"] for message in said for block in message["content"]]


def header(path: Path) -> Record:
    data = path.read_bytes()
    assert validate_session(data) == []
    first: Record = json.loads(data.splitlines()[0])
    return first


def hand_made(path: Path, session_id: str, cwd: Path | str, text: str = "hand-made", **more: object) -> Path:
    """Write a session file of one prompt, as another program might have."""
    time = "2026-01-02T03:04:05.000Z"
    head = {"type": "session", "version": 3, "id": session_id, "timestamp": time, "cwd": str(cwd), **more}
    message = {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1767323045000}
    entry = {"type": "message", "id": "00000001", "parentId": None, "timestamp": time, "message": message}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in (head, entry)), encoding="utf-8")
    return path


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*.jsonl"))


# Where sessions are kept.


def test_s1_a_session_is_private_and_lies_where_pi_looks_for_it(place: Place) -> None:
    pi = place.start()
    assert not place.root.exists()
    pi.say("one")

    path = file_of(pi)
    assert path.parent.parent == place.root
    assert path.parent.name == "--" + str(place.home.work)[1:].replace("/", "-") + "--"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z_[0-9a-f-]{36}\.jsonl", path.name)
    assert path.name.endswith(f"_{state(pi)['sessionId']}.jsonl")
    lease = path.with_name(f"{path.name}.lease")
    assert [stat.S_IMODE(each.stat().st_mode) for each in (path, lease)] == [0o600, 0o600]
    assert [stat.S_IMODE(each.stat().st_mode) for each in (place.root, path.parent)] == [0o700, 0o700]
    assert header(path)["cwd"] == str(place.home.work)


def test_s1_modes_that_let_others_read_are_reported_and_kept(place: Place) -> None:
    path = session(place, "one")
    path.chmod(0o644)
    path.parent.chmod(0o755)

    pi = place.start("--continue")
    pi.say("two")
    end(pi)

    assert f"other users may read {path}" in pi.stderr_text
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_the_folder_is_that_of_the_flag_else_the_variable_else_the_setting(place: Place) -> None:
    place.settings(sessionDir="~/by setting")
    env = {VARIABLE: "by variable"}

    folders = [
        file_of(pi).parent
        for pi in (place.start(), place.start(env=env), place.start("--session-dir", "by flag", env=env))
    ]

    assert folders == [
        place.home.home / "by setting",
        place.home.work / "by variable",
        place.home.work / "by flag",
    ]


def test_s3_a_project_has_no_say_in_where_its_sessions_go(place: Place) -> None:
    place.folder("work/.pi")
    (place.home.work / ".pi" / "settings.json").write_text(json.dumps({"sessionDir": str(place.home.work)}))

    path = session(place, "one")

    assert path.is_relative_to(place.root)
    assert files(place.home.work) == []


def test_a_working_folder_of_a_very_long_name_has_sessions(place: Place) -> None:
    deep = place.folder("/".join(["work", *["ä" * 60] * 5]))

    path = session(place, "one", cwd=deep)

    assert len(path.parent.name.encode()) <= 255
    pi = place.start("--continue", cwd=deep)
    assert (file_of(pi), texts(pi)) == (path, ["one"])


# --continue


def test_continue_goes_on_with_the_newest_session_of_the_folder(place: Place) -> None:
    first = session(place, "one")
    session(place, "two")
    os.utime(first)

    pi = place.start("--continue")
    pi.say("more")

    assert (file_of(pi), texts(pi)) == (first, ["one", "more"])
    assert len(files(place.root)) == 2


def test_continue_without_a_session_begins_one(place: Place) -> None:
    session(place, "one", cwd=place.folder("elsewhere"))

    pi = place.start("--continue")

    assert (state(pi)["messageCount"], file_of(pi).exists()) == (0, False)


@pytest.mark.parametrize("is_flat", [False, True])
def test_continue_passes_over_sessions_of_another_folder(place: Place, is_flat: bool) -> None:
    """Also where the names of two working folders make one."""
    here, there = place.folder("a/b"), place.folder("a-b")
    flags = ("--session-dir", str(place.folder("all"))) if is_flat else ()
    mine = session(place, "mine", *flags, cwd=here)
    theirs = session(place, "theirs", *flags, cwd=there)
    assert mine.parent == theirs.parent

    pi = place.start("--continue", *flags, cwd=here)

    assert (file_of(pi), state(pi)["cwd"], texts(pi)) == (mine, str(here), ["mine"])


def test_continue_finds_a_session_with_a_long_header(place: Place) -> None:
    path = session(place, "one")
    long = hand_made(path.with_name("long.jsonl"), "long", place.home.work, parentSession="/" + "p" * 20_000)

    pi = place.start("--continue")

    assert (file_of(pi), texts(pi)) == (long, ["hand-made"])


def test_continue_passes_over_what_is_no_session(place: Place) -> None:
    path = session(place, "one")
    path.with_name("notes.jsonl").write_text("notes\n")
    path.with_name("folder.jsonl").mkdir()
    os.mkfifo(path.with_name("pipe.jsonl"))

    assert file_of(place.start("--continue")) == path


# --session


def test_a_session_is_opened_by_its_path_its_id_or_the_beginning_of_it(place: Place) -> None:
    path = session(place, "one")
    session(place, "two")
    session_id = header(path)["id"]
    (place.home.home / "link.jsonl").symlink_to(path)

    for name in (str(path), os.path.relpath(path, place.home.work), "~/link.jsonl", session_id, session_id[:-1]):
        pi = place.start("--session", name)
        assert (file_of(pi), texts(pi)) == (path, ["one"])
        end(pi)


def test_a_file_that_is_not_there_is_where_the_session_will_be(place: Place) -> None:
    path = place.home.root / "new folder" / "mine.jsonl"

    pi = place.start("--session", str(path))

    assert (file_of(pi), path.exists()) == (path, False)
    pi.say("one")
    assert header(path)["id"] == state(pi)["sessionId"]


def test_an_empty_file_becomes_the_session(place: Place) -> None:
    path = place.home.root / "mine.jsonl"
    path.touch()

    pi = place.start("--session", str(path))
    pi.say("one")

    assert header(path)["cwd"] == str(place.home.work)
    end(pi)
    assert texts(place.start("--session", str(path))) == ["one"]


def test_l1_what_is_no_session_is_refused_and_stays_as_it_is(place: Place) -> None:
    folder = place.folder("odd")
    (folder / "notes.jsonl").write_bytes(b"my notes\n")
    (folder / "data.jsonl").write_bytes(b'{"type": "row", "id": "1"}\n')
    os.mkfifo(folder / "pipe.jsonl")

    for path in (folder, *sorted(folder.iterdir())):
        for flag in ("--session", "--fork"):
            assert str(path) in place.failure(flag, str(path))
    assert (folder / "notes.jsonl").read_bytes() == b"my notes\n"
    assert (folder / "data.jsonl").read_bytes() == b'{"type": "row", "id": "1"}\n'
    assert files(place.root) == []


def test_a_beginning_that_fits_several_sessions_is_refused_with_their_list(place: Place) -> None:
    folder = session(place, "one").parent
    paths = [hand_made(folder / f"{name}.jsonl", f"task-{name}", place.home.work) for name in ("one", "two")]
    hand_made(folder / "exact.jsonl", "task", place.home.work, "exact")

    told = place.failure("--session", "task-")

    assert "Several sessions match 'task-'" in told
    assert all(str(path) in told and f"task-{path.stem}" in told for path in paths)
    assert texts(place.start("--session", "task-t")) == ["hand-made"]
    assert texts(place.start("--session", "task")) == ["exact"]


def test_a_session_of_another_folder_is_refused_and_no_one_is_asked(place: Place) -> None:
    path = session(place, "one", cwd=place.folder("elsewhere"))
    session_id = header(path)["id"]

    for name in (session_id, session_id[:-1]):
        told = place.failure("--session", name)
        assert str(path) in told
        assert "--fork" in told


def test_an_id_that_there_is_not_is_refused(place: Place) -> None:
    session(place, "one")

    for flag in ("--session", "--fork"):
        assert "No session matches 'nobody'" in place.failure(flag, "nobody")
    assert str(place.home.root / "gone.jsonl") in place.failure("--fork", str(place.home.root / "gone.jsonl"))


# Where tools work.


def test_a_session_named_by_its_path_works_in_its_own_folder_and_says_so(place: Place) -> None:
    there = place.folder("there")
    path = session(place, "one", cwd=there)

    pi = place.start("--session", str(path))

    assert state(pi)["cwd"] == str(there)
    assert pi.ask("bash", command="pwd")["output"] == f"{there}\n"
    assert f"the session works in {there}" in pi.stderr_text


def test_a_session_whose_folder_is_gone_works_here_and_says_so(place: Place) -> None:
    path = hand_made(place.home.root / "mine.jsonl", "mine", "/nowhere/at all")

    pi = place.start("--session", str(path))

    assert state(pi)["cwd"] == str(place.home.work)
    assert pi.ask("bash", command="pwd")["output"] == f"{place.home.work}\n"
    assert "folder /nowhere/at all does not exist" in pi.stderr_text
    assert header(path)["cwd"] == "/nowhere/at all"


def test_a_switch_follows_the_folder_of_the_session_too(place: Place) -> None:
    there = place.folder("there")
    path = session(place, "one", cwd=there)
    pi = place.start()

    pi.ask("switch_session", sessionPath=str(path))

    assert pi.ask("bash", command="pwd")["output"] == f"{there}\n"
    pi.ask("new_session")
    pi.say("beside it")
    assert (file_of(pi).parent, header(file_of(pi))["cwd"]) == (path.parent, str(there))


# --fork


def test_a_fork_goes_on_in_a_copy_for_this_folder(place: Place) -> None:
    source = session(place, "one", cwd=place.folder("elsewhere"))
    before = source.read_bytes()
    session_id = header(source)["id"]

    for name in (str(source), session_id, session_id[:-1]):
        pi = place.start("--fork", name)
        path = file_of(pi)
        pi.say("two")
        assert texts(pi) == ["one", "two"]
        assert (header(path)["cwd"], header(path)["parentSession"]) == (str(place.home.work), str(source))
        assert header(path)["id"] == state(pi)["sessionId"] != session_id
        assert path.parent != source.parent
        assert path.read_bytes().splitlines()[1 : len(before.splitlines())] == before.splitlines()[1:]
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        end(pi)
    assert source.read_bytes() == before


def test_a_fork_of_a_session_that_is_in_use_disturbs_no_one(place: Place) -> None:
    owner = place.start()
    owner.say("one")

    pi = place.start("--fork", str(file_of(owner)))
    pi.say("two")
    owner.say("three")

    assert (texts(pi), texts(owner)) == (["one", "two"], ["one", "three"])
    assert state(owner)["sessionStatus"] == {"saved": True}


def test_a_copy_may_be_given_an_id_that_no_session_has(place: Place) -> None:
    source = session(place, "one")

    pi = place.start("--fork", str(source), "--session-id", "copy-1")
    pi.say("two")

    path = file_of(pi)
    assert (state(pi)["sessionId"], header(path)["id"]) == ("copy-1", "copy-1")
    assert "copy-1 exists already" in place.failure("--fork", str(source), "--session-id", "copy-1")
    assert len(files(place.root)) == 2


# --session-id


def test_an_id_begins_a_session_and_goes_on_with_it(place: Place) -> None:
    pi = place.start("--session-id", "task.7")
    pi.say("one")
    path = file_of(pi)
    assert path.name.endswith("_task.7.jsonl")
    end(pi)

    pi = place.start("--session-id", "task.7")

    assert (file_of(pi), texts(pi)) == (path, ["one"])


def test_an_id_means_itself_alone_whatever_the_file_is_called(place: Place) -> None:
    folder = session(place, "one").parent
    hand_made(folder / "x_a.jsonl", "a_a", place.home.work)
    odd = hand_made(folder / "odd.jsonl", "mine", place.home.work)

    assert state(place.start("--session-id", "a"))["messageCount"] == 0
    assert state(place.start("--session-id", "min"))["messageCount"] == 0
    assert file_of(place.start("--session-id", "mine")) == odd


# --no-session, --name, --resume


def test_without_a_session_nothing_is_read_or_written_whatever_else_is_said(place: Place) -> None:
    path = session(place, "one")
    before = path.read_bytes()

    for flags in (("--continue",), ("--session", str(path)), ("--session-id", "mine"), ("--resume",)):
        pi = place.start("--no-session", *flags)
        assert texts(pi) == []
        assert "sessionFile" not in state(pi)
        if flags[0] == "--session-id":
            assert state(pi)["sessionId"] == "mine"
        pi.say("two")
        end(pi)
    assert (files(place.root), path.read_bytes()) == ([path.name], before)


def test_a_name_alone_makes_no_file_and_comes_with_the_first_text(place: Place) -> None:
    pi = place.start("--name", "mine")
    assert state(pi)["sessionName"] == "mine"
    end(pi)
    assert files(place.root) == []

    path = session(place, "one", "--name", " my\tname ")

    assert state(place.start("--session", str(path)))["sessionName"] == "my name"


def test_a_name_for_a_session_that_is_there_is_kept_at_once(place: Place) -> None:
    path = session(place, "one", "--name", "former")
    end(place.start("--continue", "--name", "present"))

    pi = place.start("--continue")

    assert state(pi)["sessionName"] == "present"
    assert header(path)["type"] == "session"
    size = path.stat().st_size
    end(place.start("--fork", str(path), "--name", "copy"))
    assert path.stat().st_size == size


def test_what_would_ask_or_can_not_be_meant_is_refused(place: Place) -> None:
    path = session(place, "one")
    before = path.read_bytes()
    refusals = {
        ("--fork", str(path), "--session", str(path)): "--fork cannot be combined with --session",
        ("--fork", str(path), "--continue"): "--fork cannot be combined with --continue",
        ("--fork", str(path), "--no-session"): "--fork cannot be combined with --no-session",
        ("--session-id", "mine", "--continue"): "--session-id cannot be combined with --continue",
        ("--session-id", "mine", "--session", str(path)): "--session-id cannot be combined with --session",
    }

    for flags, text in refusals.items():
        assert text in place.failure(*flags)
    assert "pinnace sessions lists them" in place.failure("--resume", code=2)
    assert (files(place.root), path.read_bytes()) == ([path.name], before)


def test_a_named_session_goes_before_the_newest(place: Place) -> None:
    path = session(place, "one")
    session(place, "two")

    assert file_of(place.start("--continue", "--session", str(path))) == path


# In use.


def test_a_start_waits_for_a_predecessor_that_is_dying(place: Place) -> None:
    former = place.start()
    former.say("one")
    path = file_of(former)
    lease = path.with_name(f"{path.name}.lease")
    lease.write_text(json.dumps({**json.loads(lease.read_bytes()), "ending": True}) + "\n")  # as it does at its end
    pi = place.start("--session", str(path))
    pi.send({"id": "G", "type": "get_messages"})
    former.say("two")
    assert pi.response("G") is None
    end(former)

    assert pi.wait_response("G")["success"]
    assert texts(pi) == ["one", "two"]


@pytest.mark.slow
def test_l9_a_hosted_agent_is_refused_a_session_in_use_with_who_uses_it_and_the_way_out(place: Place) -> None:
    """Messages are repeated to it, which must not be refused one by one."""
    owner = place.start()
    owner.say("one")
    path = file_of(owner)

    told = place.failure("--session", str(path), "--hosted", str(path.with_name("session.json")))

    assert f"process {state(owner)['pid']}" in told
    assert "--fork" in told
    owner.say("two")
    assert state(owner)["sessionStatus"] == {"saved": True}


def test_a_predecessor_that_was_killed_is_not_waited_for(place: Place) -> None:
    former = place.start()
    former.say("one")
    path = file_of(former)
    former.kill()
    assert path.with_name(f"{path.name}.lease").exists()

    pi = place.start("--continue")

    assert texts(pi) == ["one"]


# Files of tools.


def test_s9_the_whole_output_of_a_command_is_kept_privately(place: Place) -> None:
    pi = place.start()

    data = pi.ask("bash", command="yes 0123456789 | head -n 20000")

    path = Path(data["fullOutputPath"])
    status = path.lstat()
    assert (stat.S_ISREG(status.st_mode), stat.S_IMODE(status.st_mode)) == (True, 0o600)
    folder = path.parent
    assert (folder.parent, stat.S_IMODE(folder.stat().st_mode)) == (place.home.temp, 0o700)
    assert path.stat().st_size == 20_000 * 11
