"""The text of an error that ends the start changes no terminal, whatever the names in it hold."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.rpc.conftest import ENVIRONMENT
from tests.rpc.host.attached import short_folder

HOSTILE = "a\x1b]0;title\x07b\x9b31mc\x1b[2Jd\u202ee"


@pytest.mark.parametrize(
    "words",
    [
        ["--mode", HOSTILE],
        [f"--{HOSTILE}"],
        ["--mode", "rpc", "-e", f"{HOSTILE}.py"],
        ["--mode", "rpc", "--session", f"/nowhere/{HOSTILE}"],
        ["--mode", "rpc", "--append-system-prompt", f"@{HOSTILE}"],
        ["--mode", "rpc", "--model", f"{HOSTILE}/x"],
        ["-p", f"@{HOSTILE}"],
        ["export", HOSTILE],
        ["attach", f"--{HOSTILE}"],
    ],
    ids=range(9),
)
def test_an_error_at_the_start_changes_no_terminal(tmp_path: Path, words: list[str]) -> None:
    with short_folder() as folder:

        def run(*words: str) -> subprocess.CompletedProcess[bytes]:
            return subprocess.run(
                [sys.executable, "-P", "-m", "pinnace_rpc", *words],
                env={**ENVIRONMENT, "HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(folder)},
                cwd=tmp_path,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
            )

        done = run(*words)
        if words[0] == "attach":  # it has started a host
            assert 0 == run("host", "stop").returncode

    shown = done.stderr.decode("utf-8")
    assert [] == [each for each in shown if not each.isprintable() and each not in "\n\t"], shown
