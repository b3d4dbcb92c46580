"""scripts/setup: which packages it gives to pip and to uv, without installing them."""

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.source_tree import REPOSITORY

FILES = (
    "scripts/setup",
    "pyproject.toml",
    "fuzz/pyproject.toml",
    "fuzz/hooks/editable.py",
    "requirements.lock",
    "requirements-dev.lock",
    "requirements-engines.lock",
)
# An interpreter whose pip records what it is given. An editable installation leaves its mark, as pip does.
PYTHON = """#!/bin/sh
if [ "$1 $2" != "-m pip" ]; then exec {python} "$@"; fi
echo "$*" >> pip.log
case "$*" in
  *" -r /dev/stdin"*) cat > extras.txt ;;
  *" -e ."*) mkdir -p {info} && echo '{{"dir_info": {{"editable": true}}}}' > {info}/direct_url.json ;;
esac
"""
INFO = ".venv/lib/python3.11/site-packages/pinnace-0.5.0.dist-info"


class Ran(NamedTuple):
    """What a run printed, and what its pip was asked for."""

    code: int
    text: str
    calls: Sequence[str]
    extras: frozenset[str]


class Checkout(NamedTuple):
    """A copy of what scripts/setup reads."""

    folder: Path

    def setup(self, *words: str) -> Ran:
        log, extras = self.folder / "pip.log", self.folder / "extras.txt"
        log.write_text("")
        extras.write_text("")
        done = subprocess.run(
            [self.folder / "scripts" / "setup", *words], capture_output=True, text=True, check=False, env={"PATH": PATH}
        )
        names = re.findall(r"^([a-z0-9-]+)(?:\[.*?\])?==", extras.read_text(), re.MULTILINE)
        return Ran(done.returncode, done.stdout + done.stderr, log.read_text().splitlines(), frozenset(names))


PATH = "/usr/bin:/bin"


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    for name in FILES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(REPOSITORY / name, tmp_path / name)
    python = tmp_path / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(PYTHON.format(python=sys.executable, info=INFO))
    python.chmod(0o755)
    return Checkout(tmp_path)


def test_extras_are_installed_as_the_locks_pin_them_and_once(checkout: Checkout) -> None:
    """With everything that came with them, and hashes; the checkout stays editable."""
    first = checkout.setup("--with", "images,tui")
    assert (0, 3) == (first.code, len(first.calls)), first.text
    assert {"pillow", "textual", "rich", "markdown-it-py"} <= first.extras
    assert not {"pytest", "mcp", "distributed"} & first.extras
    assert "--require-hashes -r /dev/stdin" in first.calls[1]
    assert first.calls[2].endswith("-e .")
    assert [] == [*checkout.setup("--with=tui").calls, *checkout.setup().calls]
    more = checkout.setup("--with", "dask")
    assert {"pillow", "textual", "distributed", "dask"} <= more.extras


@pytest.mark.parametrize("words", [["--with", "tuii"], ["--with"], ["--with", "test"]])
def test_an_unknown_extra_is_refused_with_those_that_there_are(words: list[str], checkout: Checkout) -> None:
    ran = checkout.setup(*words)
    assert (1, []) == (ran.code, ran.calls)
    assert "there are bedrock, dask, images, mcp, otel, ray, tui" in ran.text


def test_a_copy_over_the_checkout_is_replaced_by_the_checkout(checkout: Checkout) -> None:
    """`pip install .` in .venv leaves a copy that later changes do not reach."""
    checkout.setup()
    (checkout.folder / INFO / "direct_url.json").write_text('{"dir_info": {}}')
    again = checkout.setup()
    assert "a copy was installed over this checkout" in again.text
    assert again.calls[-1].endswith("-e .")
    assert "is up to date" in checkout.setup().text


@pytest.mark.parametrize(("code", "installers"), [(0, ["uv"]), (2, ["uv", "pip"])])
def test_what_the_tests_need_is_installed_by_uv_and_by_pip_where_that_fails(
    code: int, installers: list[str], checkout: Checkout
) -> None:
    """Uv itself comes from the lock, by its hash."""
    uv = checkout.folder / ".venv" / "bin" / "uv"
    uv.write_text(f'#!/bin/sh\necho "uv $*" >> pip.log\nexit {code}\n')
    uv.chmod(0o755)

    ran = checkout.setup("--dev")

    assert (0, frozenset({"uv"})) == (ran.code, ran.extras), ran.text
    assert "--require-hashes -r /dev/stdin" in ran.calls[0]
    locked = [
        call for call in ran.calls if call.endswith("--only-binary :all: --require-hashes -r requirements-dev.lock")
    ]
    assert installers == ["uv" if call.startswith("uv ") else "pip" for call in locked]
    assert "is up to date" in checkout.setup("--dev").text
