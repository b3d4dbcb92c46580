"""A plugin of pytest that measures what each test costs: `pytest -p tests.cost_meter`, with COSTS naming a folder.

A cost is processor time in seconds, of the test's own process and of all that it has started, whoever waits for them:
what a control group counts between the end of the test before and the end of this one, setup and teardown included.
What other programs do on the machine does not count. Needs Linux and root. Each process of a run writes one file of
lines `SECONDS<tab>TEST` into the folder; `python -m tests.costs FOLDER` makes the table of them.
"""

import os
from collections.abc import Generator
from pathlib import Path
from typing import Final

import pytest

FOLDER: Final = Path(os.environ["COSTS"])
_V1: Final = Path("/sys/fs/cgroup/cpuacct")
_GROUP: Final = (_V1 if _V1.is_dir() else Path("/sys/fs/cgroup")) / f"measured-tests-{os.getpid()}"


def _used() -> float:
    """Seconds of processor that the group has used."""
    if _V1.is_dir():
        return int((_GROUP / "cpuacct.usage").read_text()) / 1e9
    fields = dict(line.split() for line in (_GROUP / "cpu.stat").read_text().splitlines())
    return int(fields["usage_usec"]) / 1e6


# At the import: what a test starts may come from a process that is forked before the first hook.
_GROUP.mkdir()
(_GROUP / "cgroup.procs").write_text(str(os.getpid()))


class _Meter:
    def __init__(self) -> None:
        self._lines = (FOLDER / f"{os.getpid()}.tsv").open("w", encoding="utf-8", buffering=1)
        self._before = _used()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        done = yield
        now = _used()
        self._lines.write(f"{now - self._before:.3f}\t{item.nodeid}\n")
        self._before = now
        return done


def pytest_collection_finish(session: pytest.Session) -> None:
    """Begin where a collection ends, which is no test's cost."""
    session.config.pluginmanager.register(_Meter(), "cost-meter")
