"""Kills writers of a file again and again, and prints what they leave: `killed_writer.py FOLDER steps|moments NAMES`.

`steps`: at each call that the interpreter audits (opening, renaming, removing, ...), one after another. `moments`: at
random ones, for what lies between: the writing itself. NAMES is how many hard links the file has.
"""

import itertools
import os
import random
import signal
import sys
import time
from pathlib import Path

from pinnace_agent.files.atomic_file import overwrite_file

OLD, NEW = b"old" * 300_000, b"something new" * 50_000
MOMENTS = 40


def write(path: Path, content: bytes, kill_at: int | None) -> None:
    """In a child: replace the file; at a step, counted from 0, die."""
    steps = itertools.count()

    def die(event: str, _: object) -> None:
        if (event == "open" or event.startswith("os.")) and next(steps) == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)

    if kill_at is not None:
        sys.addaudithook(die)
    overwrite_file(str(path), content)
    os._exit(0)


def run(path: Path, kill_at: int | None, delay_s: float) -> bool:
    """Let a child write and kill it; return whether it was killed."""
    child = os.fork()
    if child == 0:
        write(path, NEW, kill_at)
    if kill_at is None:
        time.sleep(delay_s)  # any moment will do; none is expected
        os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def main(folder: Path, mode: str, names: int) -> None:
    path = folder / "file"
    counts = dict.fromkeys(("killed", "half written", "lost"), 0)
    start = time.monotonic()
    path.write_bytes(OLD)
    overwrite_file(str(path), NEW)
    takes_s = (time.monotonic() - start) * 2
    for step in itertools.count():
        for name in os.listdir(folder):
            (folder / name).unlink()
        path.write_bytes(OLD)
        for number in range(1, names):
            os.link(path, folder / f"name-{number}")
        is_killed = run(path, step if mode == "steps" else None, random.random() * takes_s)
        counts["killed"] += is_killed
        if path.read_bytes() not in (OLD, NEW):
            counts["half written"] += 1
            copies = [other.read_bytes() for other in folder.iterdir() if other.name.endswith(".backup")]
            counts["lost"] += OLD not in copies
        if (mode == "steps" and not is_killed) or counts["killed"] == MOMENTS:
            break
    print(*(f"{name}: {count}" for name, count in counts.items()), sep="\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
