"""Plays stored failures again: STILL, FIXED (then the file is deleted), or UNDECIDED, if a play was not judged."""

from collections.abc import Sequence
from pathlib import Path

from pinnace_fuzz.conform import store
from pinnace_fuzz.conform.results import BAD, JUDGED, NOTHING_JUDGED_EXIT
from pinnace_fuzz.conform.running import reason_not_to_run, run_once
from pinnace_fuzz.conform.session import Options, opened


def replay_all(options: Options, files: Sequence[Path], times: int) -> int:
    """Play them; return 1 if any still fails, 0 if none does, 3 if one stays undecided or there is none to play.

    A file that was named is left where it is; one of the store that no longer fails is deleted.
    """
    paths = [*files] or store.all_stored(options.out)
    if not paths:
        options.told(f"nothing is stored in {options.out}")
        return NOTHING_JUDGED_EXIT
    still = undecided = 0
    with opened(options) as (kit, _):
        for path in paths:
            stored = store.read(path)
            if why := reason_not_to_run(stored.scenario, kit):
                undecided += 1
                options.told(f"UNDECIDED {path}: {why}")
                continue
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
            elif unjudged := [each for each in results if each.verdict not in JUDGED]:
                undecided += 1
                options.told(f"UNDECIDED {path}: {unjudged[0].verdict} {unjudged[0].why}".rstrip())
            else:
                options.told(f"FIXED {path}: {stored.text}")
                if not files:
                    path.unlink()
    if still:
        return 1
    return NOTHING_JUDGED_EXIT if undecided else 0
