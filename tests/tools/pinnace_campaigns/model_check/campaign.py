"""Plays many random paths of the model against our own agent, each from a seed of its own."""

import os
import sys
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from pinnace_campaigns.model_check.paths import ModelPath, read_path
from pinnace_campaigns.model_check.replay import Disagreement, Replay
from pinnace_campaigns.model_check.script import NotPlayable, Script, script_of
from pinnace_campaigns.model_check.spin import walk
from pinnace_fuzz.trials.workbench import AgentStarter
from pinnace_spec.generate.promela.promela import model_text, sets_of
from pinnace_spec.generate.source import load

CHECKOUT = Path(__file__).resolve().parents[4]
_ROOTS = ("spec", "statechart", "agent", "rpc", "fuzz")


class Counts(NamedTuple):
    """How a campaign went."""

    played: int
    refused: int
    """Paths that no client can bring about."""
    disagreements: tuple[str, ...]


@contextmanager
def own_agent(folder: Path) -> Generator[AgentStarter]:
    """Start agents of this checkout."""
    paths = os.pathsep.join(str(CHECKOUT / name) for name in _ROOTS)
    with AgentStarter(
        (sys.executable, "-P", "-m", "pinnace_rpc"), folder, {"PYTHONPATH": paths}, is_specified=True
    ) as starter:
        yield starter


def random_paths(chosen: str, commands: int, seeds: Sequence[int], folder: Path) -> Iterator[tuple[int, ModelPath]]:
    """Walk through the first model at random, doing only what can be brought about in a real agent."""
    values = {"N": commands, "SET": list(sets_of("run")).index(chosen), "REPLAY": 1}
    text = model_text("run", load().rows)
    for seed in seeds:
        yield seed, read_path(walk(text, folder / "walk", values, [seed])[0])


def play_all(chosen: str, commands: int, seeds: Sequence[int], folder: Path, *, most: int = 0) -> Counts:
    """Play the paths of these seeds, or the first `most` of them that can be played."""
    played = refused = 0
    problems: list[str] = []
    with own_agent(folder) as starter:
        replay = Replay(starter, folder)
        for seed, path in random_paths(chosen, commands, seeds, folder):
            if most and played >= most:
                break
            script = _script(path)
            if script is None:
                refused += 1
                continue
            played += 1
            try:
                replay.play(script)
            except AssertionError as error:
                kind = "disagrees" if isinstance(error, Disagreement) else "breaks"
                problems.append(f"seed {seed}, set {chosen}, {commands} commands: {kind}\n{error}")
    return Counts(played, refused, tuple(problems))


def _script(path: ModelPath) -> Script | None:
    try:
        return script_of(path)
    except NotPlayable:
        return None


def campaign(chosen: str, commands: int, seed: int, count: int, folder: Path) -> int:
    """Play so many paths, say what came of it, and return the exit code."""
    begun = time.monotonic()
    code = 0
    for start in range(seed, seed + count, 20):
        seeds = range(start, min(start + 20, seed + count))
        part = folder / f"part-{start}"
        part.mkdir()
        counts = play_all(chosen, commands, seeds, part)
        for problem in counts.disagreements:
            sys.stdout.write(f"{problem}\n")
            code = 1
        sys.stdout.write(
            f"seeds {seeds.start} to {seeds.stop - 1}: {counts.played} played, {counts.refused} can't be,"
            f" {len(counts.disagreements)} disagree; {time.monotonic() - begun:.0f} s\n"
        )
        sys.stdout.flush()
    return code
