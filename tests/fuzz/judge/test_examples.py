"""Examples that runs share: what one worker has found, another one plays first."""

import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis.database import DirectoryBasedExampleDatabase, ExampleDatabase, MultiplexedDatabase, ReadOnlyDatabase
from tests.source_tree import REPOSITORY

from pinnace_fuzz.harness.short_folders import make_short_folder
from pinnace_fuzz.judge.adapter import NoAdapter
from pinnace_fuzz.judge.campaigns.campaign_run import CampaignRun
from pinnace_fuzz.judge.campaigns.findings import Sighting
from pinnace_fuzz.judge.campaigns.sequences import sequences
from pinnace_fuzz.judge.cli import main
from pinnace_fuzz.judge.coverage import Coverage
from pinnace_fuzz.judge.fleet.examples import ExamplesError, examples_of, open_examples
from pinnace_fuzz.judge.playing.kit import AgentUnderTest
from pinnace_fuzz.judge.playing.load import LoadMeter
from pinnace_fuzz.judge.playing.pool import Glance, Pool
from pinnace_fuzz.judge.results import Finding
from pinnace_fuzz.judge.scenarios.scenario import Scenario
from pinnace_spec.profiles.generations import generation

TIMEOUT_S = 60.0
REDIS = shutil.which("redis-server", path=str(REPOSITORY / ".tools" / "bin"))


@pytest.fixture(autouse=True)
def _no_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judge runs without pytest: a seed of the tests would have it play no examples that are known."""
    monkeypatch.setattr("hypothesis.core.global_force_seed", None)


class Worker(CampaignRun):
    """A run whose agent breaks an invariant when it is asked to abort in a script with a compaction."""

    def __init__(self, kit: AgentUnderTest, database: ExampleDatabase | None, most: int, known: str = "") -> None:
        super().__init__(kit, Coverage(), time.monotonic() + TIMEOUT_S, seed=1, database=database)
        self.most = most
        self.played: list[bool] = []
        self.followed: list[Scenario] = []
        self._known_before = known

    def glance(self, pool: Pool, scenario: Scenario, campaign: str) -> Glance:
        script = str(scenario.source["client"])
        is_bad = "'abort'" in script and "'compact'" in script
        self.played.append(is_bad)
        findings = (Finding("I-EVT-12", ("R-EVT-01",), "wrong"),) if is_bad else ()
        return Glance(scenario, findings, (), {}, False, False)

    def is_known(self, sighting: Sighting) -> bool:
        return sighting.finding.source == self._known_before or super().is_known(sighting)

    def follow_up(self, pool: Pool, scenario: Scenario, sighting: Sighting, campaign: str) -> None:
        self.followed.append(scenario)

    def work(self, seed: int) -> None:
        pool: Any = None  # nothing is played by processes
        sequences(self, pool, Random(seed), lambda: len(self.played) >= self.most or bool(self.followed))


@pytest.fixture
def kit(tmp_path: Path) -> Iterator[AgentUnderTest]:
    with LoadMeter() as meter:
        capabilities = frozenset({"llm", "tools", "bash", "sessions"})
        yield AgentUnderTest(("agent",), NoAdapter(), capabilities, generation("1.5"), tmp_path, meter)


@pytest.fixture
def redis() -> Iterator[str]:
    """The URL of a server of the test's own."""
    if REDIS is None:
        pytest.skip("redis-server is not installed (scripts/peers)")
    folder = make_short_folder("redis-")
    socket = folder / "redis"
    words = ["--port", "0", "--unixsocket", str(socket), "--save", "", "--dir", str(folder)]
    process = subprocess.Popen([REDIS, *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        while "eady to accept connections" not in (line := process.stdout.readline()):
            assert line, process.poll()
        yield f"unix://{socket}"
    finally:
        process.kill()
        process.communicate()
        shutil.rmtree(folder)


def know_each_other(kit: AgentUnderTest, first: ExampleDatabase, second: ExampleDatabase) -> None:
    finder = Worker(kit, examples_of("agent", first), most=5_000)
    finder.work(1)
    other = Worker(kit, examples_of("agent", second), most=5_000)
    other.work(2)
    stranger = Worker(kit, examples_of("another agent", second), most=1)
    stranger.work(2)

    assert finder.followed
    assert not finder.played[0]
    assert other.played[0]
    assert other.followed
    assert [False] == stranger.played


@pytest.mark.peer
def test_an_example_that_one_worker_has_found_is_known_to_another_by_redis(kit: AgentUnderTest, redis: str) -> None:
    know_each_other(kit, open_examples([redis]), open_examples([redis]))


def test_an_example_is_known_by_a_folder_that_the_second_one_does_not_write(
    kit: AgentUnderTest, tmp_path: Path
) -> None:
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    know_each_other(kit, open_examples([first]), open_examples([f"readonly:{first}", second]))


def test_an_example_that_fails_stays_though_its_finding_is_known(kit: AgentUnderTest, tmp_path: Path) -> None:
    """The other campaigns of the run may have found it, too."""
    database = examples_of("agent", open_examples([str(tmp_path / "d")]))
    Worker(kit, database, most=5_000).work(1)
    Worker(kit, database, most=20, known="I-EVT-12").work(2)
    last = Worker(kit, database, most=2)
    last.work(3)

    assert True in last.played[:2]  # Hypothesis also keeps the one that the end of a run has cut


def test_several_urls_are_one_database(tmp_path: Path) -> None:
    folder = str(tmp_path / "a")

    assert isinstance(open_examples([folder]), DirectoryBasedExampleDatabase)
    assert isinstance(open_examples(["github:owner/name.x"]), ReadOnlyDatabase)
    assert isinstance(open_examples([folder, "readonly:github:owner/name"]), MultiplexedDatabase)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("http://example.org/x", "expected a folder, redis://"),
        ("", "expected a folder"),
        ("github:owner", "expected github:OWNER/REPOSITORY"),
        ("readonly:github:a/b/c", "expected github:OWNER/REPOSITORY"),
        ("/dev/null/folder", "the folder can't be made"),
        ("redis://user:word@127.0.0.1:1/0", "no Redis answers"),
        ("redis://127.0.0.1:port", "no Redis answers"),
    ],
)
def test_a_url_that_is_none_is_named_with_its_option(url: str, why: str) -> None:
    with pytest.raises(ExamplesError, match=r"^--examples ") as raised:
        open_examples([url])

    assert why in str(raised.value)
    assert "word" not in str(raised.value)


def test_a_run_with_an_invalid_url_starts_no_agent(capsys: pytest.CaptureFixture[str]) -> None:
    assert 3 == main(["--examples", "github:x", "--", "no-such-agent"])
    assert "--examples github:x" in capsys.readouterr().err
