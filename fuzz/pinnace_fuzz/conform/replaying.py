"""Plays stored failures again: STILL, or FIXED, and then the file is deleted."""

from collections.abc import Sequence
from pathlib import Path

from pinnace_fuzz.conform import store
from pinnace_fuzz.conform.results import BAD
from pinnace_fuzz.conform.running import run_once
from pinnace_fuzz.conform.session import Options, opened


def replay_all(options: Options, files: Sequence[Path], times: int) -> int:
    """Play them; return 1 if any still fails, 0 if none does.

    A file that was named is left where it is; one of the store that no longer fails is deleted.
    """
    paths = [*files] or store.all_stored(options.out)
    if not paths:
        options.told(f"nothing is stored in {options.out}")
        return 0
    still = 0
    with opened(options) as (kit, _):
        for path in paths:
            stored = store.read(path)
            results = [run_once(stored.scenario, kit, stored.kind) for _ in range(times)]
            wanted = stored.signatures
            bad = [
                each
                for each in results
                if each.verdict in BAD and (not wanted or wanted & {finding.signature for finding in each.findings})
            ]
            if bad:
                still += 1
                options.told(f"STILL {path} ({len(bad)} of {times}): {stored.text}")
            else:
                options.told(f"FIXED {path}: {stored.text}")
                if not files:
                    path.unlink()
    return 1 if still else 0
