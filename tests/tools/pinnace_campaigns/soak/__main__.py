"""The command line of soaks.

    python -P -m pinnace_campaigns.soak --minutes 15 --page soak.md
    python -P -m pinnace_campaigns.soak --week --page soak.md

Exit codes: 0 steady, 1 something grows or is left.
"""

import datetime
import platform
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from pinnace_campaigns.soak.samples import ProcessPlace, Sample, take
from pinnace_campaigns.soak.traffic import ForgettingJournal, Traffic
from pinnace_campaigns.soak.verdict import WEEK_PROMPTS, JudgedMatter, judge, page
from pinnace_fuzz.harness.adapters import prepare_pi_home
from pinnace_fuzz.harness.driver import Agent
from pinnace_fuzz.harness.model_server.fake_llm import FakeLlm
from pinnace_spec.profiles.profiles import DEFAULT_PROFILE

SETTINGS: Final = {"retry": {"baseDelayMs": 5}, "compaction": {"keepRecentTokens": 2000}}
_EXIT_S: Final = 30.0
_LOG_EVERY_S: Final = 30.0


def soak(
    root: Path,
    command: Sequence[str],
    *,
    seconds: float | None,
    protocol: str = DEFAULT_PROFILE,
    env: Mapping[str, str] | None = None,
) -> tuple[list[JudgedMatter], list[Sample], Traffic]:
    """Send traffic to one process for a time, or a week's worth of it (None); judge it.

    Raises:
        AssertionError: The agent said no, died, or left something.
    """
    with FakeLlm() as llm:
        home = prepare_pi_home(root, llm.base_url, has_session=True, settings=SETTINGS, env=env or {})
        journal = ForgettingJournal()
        argv = [*command, *home.arguments, "--protocol", protocol]
        with Agent(argv, cwd=home.work, env=home.env, journal=journal) as agent:
            traffic = Traffic(agent, journal, llm)
            samples = _samples(
                agent, journal, traffic, ProcessPlace(agent.process.pid, home.temp, home.sessions), seconds
            )
            agent.close_stdin()
            assert agent.wait_exit(_EXIT_S) == 0, journal.tail()
            assert agent.process.left_behind(_EXIT_S) == []
    return judge(samples, traffic.done["long outputs"]), samples, traffic


def _samples(
    agent: Agent, journal: ForgettingJournal, traffic: Traffic, place: ProcessPlace, seconds: float | None
) -> list[Sample]:
    began_s = logged_s = time.monotonic()
    samples: list[Sample] = []
    while True:
        traffic.converse()
        now_s = time.monotonic()
        samples.append(
            take(
                place,
                time_s=now_s - began_s,
                prompts=traffic.done["prompts"],
                children=len(agent.descendants()),
                stderr_bytes=journal.stderr_bytes,
            )
        )
        if now_s - logged_s > _LOG_EVERY_S:
            logged_s = now_s
            last = samples[-1]
            click.echo(f"{last.time_s:.0f} s, {last.prompts} prompts, private {last.private_kib} KiB", err=True)
        if _is_enough(samples[-1], seconds):
            return samples


def _is_enough(sample: Sample, seconds: float | None) -> bool:
    return sample.prompts >= WEEK_PROMPTS if seconds is None else sample.time_s >= seconds


@click.command()
@click.option("--minutes", default=15.0, show_default=True, help="How long.")
@click.option("--week", is_flag=True, help=f"A week's worth, {WEEK_PROMPTS} prompts, however long that takes.")
@click.option("--protocol", default=DEFAULT_PROFILE, show_default=True)
@click.option("--page", "to", type=click.Path(path_type=Path), help="Write the page here; otherwise to stdout.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def main(minutes: float, week: bool, protocol: str, to: Path | None, command: tuple[str, ...]) -> None:
    """Keep one agent (by default ours; another COMMAND behind --) busy, and see whether anything grows."""
    chosen = command or (sys.executable, "-P", "-m", "pinnace_rpc")
    with tempfile.TemporaryDirectory(prefix="soak-") as root:
        rows, samples, traffic = soak(Path(root), chosen, seconds=None if week else minutes * 60, protocol=protocol)
    about = {
        "date": f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M} UTC",
        "agent": f"{' '.join(['python', *chosen[1:]] if chosen[0] == sys.executable else chosen)}, profile {protocol}",
        "machine": f"Python {platform.python_version()}, {platform.system()} {platform.machine()}",
    }
    text = page(rows, samples, traffic.done, about)
    if to is None:
        click.echo(text)
    else:
        to.write_text(text, encoding="utf-8")
    for row in rows:
        click.echo(f"{row.what}: {row.figures}{f' FAULT: {row.fault}' if row.fault else ''}", err=True)
    sys.exit(1 if any(row.fault for row in rows) else 0)


if __name__ == "__main__":
    main()
