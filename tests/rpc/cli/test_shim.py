"""`pinnace shim`: files named `pi` and `cli.js` that start pinnace."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.source_tree import PYTHONPATH, REPOSITORY

from pinnace_rpc.cli import pi
from pinnace_rpc.cli.commands.shim import ForeignFile, write_shims
from pinnace_rpc.options.options import PROFILE_VARIABLE
from pinnace_spec.profiles.generations import generation

NODE = REPOSITORY / ".tools" / "node22" / "bin" / "node"
STATE = b'{"id":"s","type":"get_state"}\n'
RPC = ["--mode", "rpc", "--no-session", "--provider", "offline"]
TIMEOUT_S = 60
RELEASE = generation("pi").release


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    search = os.pathsep.join([str(NODE.parent), os.environ["PATH"]])
    return {"PATH": search, "HOME": str(tmp_path), "PYTHONPATH": PYTHONPATH}


@pytest.fixture(params=["pi", "cli.js"])
def shim(request: pytest.FixtureRequest, tmp_path: Path, env: dict[str, str]) -> Path:
    """One of both, in a folder with an awkward name."""
    name = str(request.param)
    if name == "cli.js" and shutil.which("node", path=env["PATH"]) is None:
        pytest.skip("node is not there: scripts/peers installs it")
    folder = tmp_path / "it's a folder"
    assert [folder / "pi", folder / "cli.js"] == write_shims(folder)
    return folder / name


def start(shim: Path, env: dict[str, str], *words: str, cwd: Path | None = None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [shim, *words],
        cwd=cwd,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def test_a_shim_starts_pinnace_with_its_arguments_and_streams(shim: Path, env: dict[str, str]) -> None:
    with start(shim, env, *RPC, "--name", "two words $HOME") as process:
        out, err = process.communicate(STATE, TIMEOUT_S)
    assert (0, b"") == (process.returncode, err)
    assert b'"sessionName":"two words $HOME"' in out


def test_a_shim_leaves_with_the_exit_code_of_pinnace(shim: Path, env: dict[str, str]) -> None:
    with start(shim, env, "--bogus") as process:
        _, err = process.communicate(b"", TIMEOUT_S)
    assert 2 == process.returncode
    assert b"--bogus" in err


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGINT, -signal.SIGINT)],
)
def test_a_signal_reaches_pinnace_and_its_end_is_that_of_the_shim(
    number: signal.Signals, status: int, shim: Path, env: dict[str, str]
) -> None:
    with start(shim, env, *RPC) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(STATE)
        process.stdin.flush()
        assert process.stdout.readline()  # it runs
        process.send_signal(number)
        assert status == process.wait(TIMEOUT_S)
        assert b"" == process.stdout.read()  # nobody holds the other end any more


def test_a_shim_loads_nothing_from_the_folder_it_is_started_in(shim: Path, env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "pinnace_rpc.py").write_text("raise SystemExit('wrong module')")
    with start(shim, env, "--version", cwd=tmp_path) as process:
        out, _ = process.communicate(b"", TIMEOUT_S)
    assert f"{RELEASE}\n".encode() == out


@pytest.mark.parametrize(
    ("words", "variable", "answer"),
    [
        (["--version"], None, generation("pi").release),
        (["-v", "--protocol", "seed"], None, generation("seed").release),
        (["--protocol=0.18", "--version"], "seed", generation("0.18").release),
        (["--version"], "0.5x", generation("0.5x").release),
        (["--version"], "unknown", None),
        (["-p", "--", "--version", "a b"], None, None),
        (["sessions", "--version"], None, None),
    ],
)
def test_under_the_name_of_pi_the_version_is_that_of_the_profile(
    words: list[str], variable: str | None, answer: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R-CLI-03: None: the program itself answers."""
    echoed: list[str] = []
    monkeypatch.setattr("pinnace_rpc.options.streams.echo", lambda text, **_: echoed.append(str(text)))

    def run(words: list[str]) -> int:
        echoed.append("of the program")
        return 7

    monkeypatch.setattr("pinnace_rpc.cli.main.main", run)
    env = {} if variable is None else {PROFILE_VARIABLE: variable}

    assert (7 if answer is None else 0) == pi.main(words, env)
    assert [answer or "of the program"] == echoed


@pytest.mark.parametrize("kind", ["commonjs", "module"])
def test_the_script_runs_in_either_kind_of_package(kind: str, tmp_path: Path, env: dict[str, str]) -> None:
    if shutil.which("node", path=env["PATH"]) is None:
        pytest.skip("node is not there: scripts/peers installs it")
    (tmp_path / "package.json").write_text(f'{{"type": "{kind}"}}')
    write_shims(tmp_path)
    with start(tmp_path / "cli.js", env, "--version") as process:
        out, err = process.communicate(b"", TIMEOUT_S)
    assert (f"{RELEASE}\n".encode(), b"") == (out, err)


def test_a_python_that_is_gone_is_reported(tmp_path: Path, env: dict[str, str]) -> None:
    if shutil.which("node", path=env["PATH"]) is None:
        pytest.skip("node is not there: scripts/peers installs it")
    write_shims(tmp_path)
    script = tmp_path / "cli.js"
    script.write_text(script.read_text().replace(sys.executable, "/gone/python"))
    with start(script, env) as process:
        _, err = process.communicate(b"", TIMEOUT_S)
    assert (127, b"pinnace: /gone/python can't be started: ENOENT\n") == (process.returncode, err)


def test_shims_are_replaced_by_shims(tmp_path: Path) -> None:
    write_shims(tmp_path)
    before = (tmp_path / "pi").read_text()
    (tmp_path / "pi").write_text(before + "# old\n")
    write_shims(tmp_path)
    assert before == (tmp_path / "pi").read_text()
    assert {"pi", "cli.js"} == {path.name for path in tmp_path.iterdir()}
    assert 0o755 == (tmp_path / "pi").stat().st_mode & 0o777


@pytest.mark.parametrize("name", ["pi", "cli.js"])
def test_another_program_is_not_replaced_and_nothing_is_written(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("#!/bin/sh\necho the real one\n")
    with pytest.raises(ForeignFile, match=name):
        write_shims(tmp_path)
    assert [name] == [path.name for path in tmp_path.iterdir()]


def test_a_link_is_another_program_and_force_replaces_the_link_itself(tmp_path: Path) -> None:
    real, folder = tmp_path / "real", tmp_path / "bin"
    real.write_text("the real one")
    folder.mkdir()
    (folder / "pi").symlink_to(real)
    with pytest.raises(ForeignFile):
        write_shims(folder)
    write_shims(folder, is_forced=True)
    assert "the real one" == real.read_text()
    assert not (folder / "pi").is_symlink()


def test_the_command_prints_what_it_wrote(tmp_path: Path, env: dict[str, str]) -> None:
    command = [sys.executable, "-P", "-m", "pinnace_rpc", "shim", "bin"]
    ended = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert (0, "bin/pi\nbin/cli.js\n", "") == (ended.returncode, ended.stdout, ended.stderr)
    again = tmp_path / "bin" / "pi"
    again.write_text("another")
    ended = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert (1, "") == (ended.returncode, ended.stdout)
    assert "pinnace: bin/pi exists and is not a shim; --force replaces it\n" == ended.stderr
