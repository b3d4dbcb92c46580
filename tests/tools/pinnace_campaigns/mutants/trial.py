"""Puts a fault into a private copy of the checkout and runs its check there.

The checkout itself is never touched. A fault is found when its check passes without it and fails with it: with a
failure of the test, not an error in collecting it. What a fault leaves behind may keep the check from ending; where it
hangs is printed, and what the test has said until then counts.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from pinnace_campaigns.mutants.catalogue import AgentMutant
from pinnace_fuzz.harness import coverage

CHECKOUT: Final = Path(__file__).resolve().parents[4]
_FOLDERS: Final = ("spec", "statechart", "agent", "rpc", "fuzz", "tests")
_FILES: Final = ("pyproject.toml", "README.md")
# The bytecode of our sources is as valid for the copies, which have their times and sizes; that of tests names places.
_LEFT_OUT: Final = shutil.ignore_patterns("*pytest*.pyc", "benchmarks", "data", "real_model")
_TIMEOUT_S: Final = 120
# From the signal to the end: the stacks of all threads are printed.
_ABORT_S: Final = 10
# Of pytest: all passed, some failed.
_PASSED, _FAILED = 0, 1
# How pytest's first line begins when the one test has failed.
_FAILURE: Final = "F"


class StaleMutant(Exception):
    """The text that the fault replaces is not in its file exactly once."""


class Trial(NamedTuple):
    """What a check said of a fault."""

    is_found: bool
    printed: str


def patched(mutant: AgentMutant, root: Path = CHECKOUT) -> str:
    """Return a file's text with the fault in it.

    Raises:
        StaleMutant: The catalogue is out of date.
    """
    path = root / mutant.file
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    if (count := text.count(mutant.old)) != 1:
        raise StaleMutant(f"{mutant.name}: its text is {count} times in {mutant.file}")
    return text.replace(mutant.old, mutant.new)


class Copy:
    """A private copy of the packages and tests."""

    def __init__(self, folder: Path) -> None:
        """Copy them into an empty folder."""
        self.root = folder / "checkout"
        self.root.mkdir()
        for name in _FOLDERS:
            shutil.copytree(CHECKOUT / name, self.root / name, ignore=_LEFT_OUT, symlinks=True)
        for name in _FILES:
            shutil.copy2(CHECKOUT / name, self.root / name)
        if (CHECKOUT / ".tools").exists():
            (self.root / ".tools").symlink_to(CHECKOUT / ".tools")

    @contextmanager
    def with_fault(self, mutant: AgentMutant) -> Generator[None]:
        """Put a fault in, and take it out again."""
        path = self.root / mutant.file
        whole, times = path.read_text(encoding="utf-8"), path.stat()
        path.write_text(patched(mutant, self.root), encoding="utf-8")
        try:
            yield
        finally:
            path.write_text(whole, encoding="utf-8")
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    def attempt(self, mutant: AgentMutant) -> Trial:
        """Run the check of a fault with the fault in place."""
        with self.with_fault(mutant):
            code, printed = self.run(mutant.check)
        return Trial(code == _FAILED, printed)

    def passes(self, check: str) -> bool:
        """Whether a check passes in the copy as it is."""
        return self.run(check)[0] == _PASSED

    def run(self, check: str) -> tuple[int, str]:
        """Run one test; return pytest's exit code and what it printed."""
        # One check needs few agents: new interpreters are quicker than a process to fork them from. What a program with
        # a fault reaches of the specification counts for nothing.
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "HYPOTHESIS_PROFILE": "dev", "FRESH_AGENTS": "1"}
        for name in ("PYTEST_XDIST_WORKER", coverage.VARIABLE):
            environment.pop(name, None)
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", check]
        with subprocess.Popen(
            command,
            cwd=self.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            try:
                printed, _ = process.communicate(timeout=_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGABRT)  # pytest has the stacks printed
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_ABORT_S)
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                printed, _ = process.communicate()
                return _FAILED if printed.startswith(_FAILURE) else process.returncode, printed
        return process.returncode, printed
