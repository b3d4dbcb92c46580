"""Hosts, agents and clients that die at random: two hundred moves; the command takes more.

A failure prints the seed and the script to replay. The faults and the guarantees: docs/soak-and-chaos.md.
"""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Final

import pytest
from tests.rpc.host.attached import short_folder
from tests.source_tree import PYTHONPATH

from pinnace_campaigns.chaos.hosted.__main__ import Played, campaign, summary
from pinnace_campaigns.chaos.hosted.world import HostedWorld
from pinnace_fuzz.process_tree import kill_each, processes_with

STEPS: Final = 200


def make() -> HostedWorld:
    return HostedWorld([sys.executable, "-P", "-m", "pinnace_rpc"], {"PYTHONPATH": PYTHONPATH})


@pytest.mark.slow
def test_nothing_is_lost_whatever_dies_around_a_host() -> None:
    """Always the same moves, unless asked otherwise. The command draws new ones."""
    seed = int(os.environ.get("CHAOS_SEED", "6000"))
    print(f"seed {seed}")
    played = Played(Counter(), Counter())
    campaign(make, STEPS, seed, played, is_shrinking=False, log=print)
    print(summary(played))

    assert STEPS <= played.moves.total()


def test_a_host_that_finds_no_room_for_its_lock_refuses_and_a_later_one_starts() -> None:
    world = make()
    try:
        world.fill("disk", 0)
        world.kill("host", 1, [], [], 0, 0)  # there is none yet; one is started
        if not any(disk.is_own for disk in world.disks):
            pytest.skip("no disk can be mounted here")
        assert world.found["host without space"] == 1
        world.close()
    finally:
        world.discard()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_run_that_is_ended_by_signals_leaves_nothing_behind() -> None:
    """No process, no mount, no file, though a second signal comes while it cleans up."""
    with short_folder() as folder:
        words = ["-P", "-m", "pinnace_campaigns.chaos.hosted", "--seed", "6000", "--failure", str(folder / "failure")]
        run = subprocess.Popen(
            [sys.executable, *words],
            env={**os.environ, "PYTHONPATH": PYTHONPATH, "TMPDIR": str(folder)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        while run.poll() is None and not any(lock.stat().st_size for lock in folder.glob("*/h/agent/host/host.lock")):
            time.sleep(0.01)
        run.send_signal(signal.SIGTERM)
        run.send_signal(signal.SIGINT)

        _, err = run.communicate(timeout=60)
        left = processes_with(os.fsencode(folder))
        kill_each(left)
        mounts = [line for line in Path("/proc/mounts").read_text().splitlines() if str(folder) in line]
        assert (130, b"interrupted\n", [], [], []) == (run.returncode, err, left, mounts, [*folder.iterdir()])
