"""What is left of an agent that a host has removed, whatever the disk has kept of the removal."""

import json
import os
import random
from pathlib import Path

from pinnace_fuzz.simulation.disk import EMPTY_FAULTS, Disk, ProcessDisk
from pinnace_rpc.host.details import remove_agent, session_of
from pinnace_rpc.host.locations import flush_names, make_folder

FILES = ("agent.json", "journal.json", "run.json", "clients/ide.jsonl", "0000000001-000000000000001-0.jsonl")
DETAILS = {"cwd": "/", "profile": "pi", "session_id": "s"}


def make_agent(system: ProcessDisk, folder: str) -> None:
    make_folder(f"{folder}/clients", system)
    for name in FILES:
        descriptor = system.open(f"{folder}/{name}", os.O_WRONLY | os.O_CREAT, 0o600)
        system.write(descriptor, json.dumps(DETAILS).encode())
        system.fsync(descriptor)
        system.close(descriptor)
    for each in (f"{folder}/clients", folder):
        flush_names(each, system)


def test_a_removal_that_a_loss_of_power_has_cut_leaves_an_agent_that_is_known(tmp_path: Path) -> None:
    """Whole, or as one that can be removed again; never files without what names their session."""
    left: set[frozenset[str]] = set()
    for seed in range(60):
        root = tmp_path / str(seed)
        root.mkdir(mode=0o700)
        folder = str(root / "main")
        disk = Disk(root, random.Random(seed), EMPTY_FAULTS, lambda _: None)
        system = disk.begin()
        make_agent(system, folder)
        remove_agent(folder, system)
        is_gone = not os.path.exists(folder)
        system.close_all()
        disk.lose_power()
        names = frozenset(disk.contents())
        left.add(names)
        assert is_gone
        assert (session_of(folder) == "s") == bool(names - {"main/clients/ide.jsonl"})

    assert frozenset() in left
    assert frozenset(f"main/{name}" for name in FILES) in left
    assert len(left) > 2
