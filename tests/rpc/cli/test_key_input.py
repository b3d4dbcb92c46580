"""A key from a file or a descriptor: nothing on the command line shows it, and it is used like that of `--api-key`."""

import os
import stat
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_fuzz.script import Scripted
from pinnace_fuzz.trials.workbench import AgentStarter
from pinnace_rpc.cli import key_input
from pinnace_rpc.cli.key_input import with_key
from pinnace_rpc.options.options import Options, StartupError

KEY = "sk-from-a-file-0123456789"


def piped(data: bytes) -> int:
    reading, writing = os.pipe()
    os.write(writing, data)
    os.close(writing)
    return reading


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    path = tmp_path / "key"
    path.write_text(f"{KEY}\n")
    path.chmod(0o600)
    return path


def test_a_key_is_read_from_a_file(key_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert Options(api_key=KEY) == with_key(Options(api_key_file=str(key_file)))
    assert "" == capsys.readouterr().err


def test_a_key_file_that_others_can_read_is_reported(key_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key_file.chmod(0o640)

    assert KEY == with_key(Options(api_key_file=str(key_file))).api_key
    assert (
        f"pinnace: --api-key-file {key_file}: others can read it (mode 640); `chmod 600` it\n"
        == capsys.readouterr().err
    )


def test_a_key_is_read_from_a_descriptor_which_is_closed() -> None:
    descriptor = piped(f"{KEY}\n".encode())

    assert KEY == with_key(Options(api_key_fd=descriptor)).api_key
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_a_key_is_taken_at_the_end_of_its_line_although_the_writer_stays() -> None:
    reading, writing = os.pipe()
    os.write(writing, f"{KEY}\n".encode())

    assert KEY == with_key(Options(api_key_fd=reading)).api_key
    os.close(writing)


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"a\nb", b"\xff\xfe", b"k\xc3\xa9y", b"x" * (key_input.MAX_KEY_BYTES + 1)]
)
def test_what_is_no_key_is_refused_and_not_shown(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_bytes(content)
    with pytest.raises(StartupError) as refused:
        with_key(Options(api_key_file=str(path)))

    text = str(refused.value)
    assert text.startswith(f"--api-key-file {path}: ")
    assert len(text) < 200 + len(str(path))


def test_a_file_that_is_missing_or_is_none_is_refused(tmp_path: Path) -> None:
    for path, reason in (
        (tmp_path / "none", "No such file or directory"),
        (tmp_path, "it is neither a file nor a pipe"),
    ):
        with pytest.raises(StartupError, match=f": {reason}$"):
            with_key(Options(api_key_file=str(path)))


def test_a_pipe_that_no_one_writes_to_does_not_hold_the_start_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(key_input, "WAIT_S", 0.05)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(StartupError, match="no input within"):
        with_key(Options(api_key_file=str(tmp_path / "pipe")))


def test_a_descriptor_that_is_not_open_is_refused() -> None:
    descriptor = piped(b"")
    os.close(descriptor)
    with pytest.raises(StartupError, match=f"^--api-key-fd {descriptor}: that descriptor is not open$"):
        with_key(Options(api_key_fd=descriptor))


def test_the_key_of_a_file_is_sent_and_written_nowhere(
    agent: AgentStarter, llm: Callable[[Iterable[Scripted]], FakeLlm], key_file: Path
) -> None:
    fake = llm(
        [{"tool_calls": [{"name": "bash", "args": {"command": "tr '\\0' ' ' < /proc/$PPID/cmdline"}}]}, {"text": "x"}]
    )
    pi = agent(fake, "--api-key-file", str(key_file), "--verbose")
    pi.say("go")
    pi.check_end()

    assert f"Bearer {KEY}" == fake.requests[0].headers["authorization"]
    assert KEY not in str(fake.requests[1].body)
    assert KEY not in pi.stderr_text


def test_a_loose_auth_json_is_reported_at_the_start(
    agent: AgentStarter, llm: Callable[[Iterable[Scripted]], FakeLlm]
) -> None:
    fake = llm([])
    first = agent(fake)
    path = first.home.agent_dir / "auth.json"
    path.write_text("{}")
    for mode, is_reported in ((0o644, True), (0o640, True), (0o600, False)):
        path.chmod(mode)
        first.home.agent_dir.chmod(0o755)
        pi = agent(fake, again=first)
        pi.check_end()
        text = f"other users may read {path} (mode {stat.S_IMODE(mode):03o}); `chmod 600` keeps it private"
        assert is_reported == (text in pi.stderr_text)
