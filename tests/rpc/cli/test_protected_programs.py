"""Every program of ours closes itself to other processes of its user, before it does anything else."""

import ast
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from tests.rpc.conftest import ENVIRONMENT
from tests.rpc.host.attached import short_folder

ROOT = Path(__file__).resolve().parents[3]
# What closes a process, itself or by the program that it goes on with.
CLOSING = {"protect", "protect_process", "run", "run_agent"}
DEVELOPERS = {
    "rpc/pinnace_rpc/options/shown/man.py": "writes a page of this repository",
    "rpc/pinnace_rpc/__main__.py": "calls the entry of the command line",
}
AT_EXIT = """import atexit, ctypes, sys
atexit.register(lambda: sys.__stderr__.write(f"dumpable={ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)}\\n"))
"""


def programs() -> list[str]:
    return [
        str(path.relative_to(ROOT))
        for package in ("agent", "rpc")
        for path in sorted((ROOT / package).rglob("*.py"))
        if 'if __name__ == "__main__"' in path.read_text(encoding="utf-8")
    ]


def test_every_module_that_is_a_program_closes_itself() -> None:
    open_ones = []
    for name in set(programs()) - set(DEVELOPERS):
        tree = ast.parse((ROOT / name).read_text(encoding="utf-8"))
        called = {
            each.func.id for each in ast.walk(tree) if isinstance(each, ast.Call) and isinstance(each.func, ast.Name)
        }
        if not called & CLOSING:
            open_ones.append(name)

    assert [] == open_ones
    assert set(DEVELOPERS) <= set(programs())


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
@pytest.mark.parametrize(
    "words",
    [
        "--version",
        "attach --nothing",
        "host stop",
        "agents",
        "batch",
        "mcp list",
        "trust --nothing",
        "--mode rpc",
        "acp",
    ],
)
def test_a_program_is_closed_whatever_it_is_called_for(tmp_path: Path, words: str) -> None:
    (tmp_path / "sitecustomize.py").write_text(AT_EXIT)
    with short_folder() as folder:  # of the sockets of hosts: no other test's host is found there, or ended
        own = {"HOME": str(tmp_path), "PYTHONPATH": str(tmp_path), "XDG_RUNTIME_DIR": str(folder)}
        env = {**os.environ, **ENVIRONMENT, **own}
        run = partial(
            subprocess.run, env=env, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        done = run([sys.executable, "-P", "-m", "pinnace_rpc", *words.split()])
        if words.startswith("attach"):  # which has started a host
            assert 0 == run([sys.executable, "-P", "-m", "pinnace_rpc", "host", "stop"]).returncode

    assert "dumpable=0\n" in done.stderr, done.stderr
