"""Searches the model of session files, `spec/model/sessions.pml`.

    python -P -m pinnace_campaigns.model_check.sessions            both parts
    python -P -m pinnace_campaigns.model_check.sessions --mutants  every fault of the model, found by its property

One part has two processes on one file, the other an agent of a host that replaces its session. Exit codes are those of
`python -P -m pinnace_campaigns.model_check`.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pinnace_campaigns.model_check.reporting import BROKEN, FAILS, HOLDS, code_of, report
from pinnace_campaigns.model_check.spin import ModelBroken, Search, SpinMissing, Verdict
from pinnace_spec import data

MODEL: Final = "model/sessions.pml"

PROPERTIES: Final[Mapping[str, str]] = {
    "one_writer": "A process appends to a file only while it has the lease.",
    "in_sequence": "A process that appends has read everything before: its entry continues the branch.",
    "refused_is_gone": "A message that is refused is in no file, also later.",
    "left_is_free": "A message is refused only while another process works in the session, not when it has left that.",
    "returns": "An agent returns in the session of the last message that it has accepted.",
    "at_most_once": "A message is accepted once in a session file, and never again in a former session.",
}


class Part(NamedTuple):
    """One of the two searches."""

    name: str
    is_shared: bool
    """Whether two processes have one file; else one agent replaces its session."""
    messages: int
    """Of each client."""
    replacements: int
    crashes: int


SHARED: Final = Part("shared file", True, 2, 0, 3)
RETURNING: Final = Part("replaced session", False, 3, 2, 3)


class SessionsMutant(NamedTuple):
    """A fault of the model, which is a macro in it; a search of the part finds that it breaks the property."""

    name: str
    text: str
    property: str
    part: Part


MUTANTS: Final = (
    SessionsMutant("lease_not_needed", "A process appends while another one has the lease.", "one_writer", SHARED),
    SessionsMutant("not_read_again", "A process that takes the lease later does not read anew.", "in_sequence", SHARED),
    SessionsMutant("read_before_lease", "It reads anew, and takes the lease then.", "in_sequence", SHARED),
    SessionsMutant("refused_is_kept", "A refused message is written with the next one.", "refused_is_gone", SHARED),
    SessionsMutant("left_is_not_waited", "A process that has left does not count as gone.", "left_is_free", SHARED),
    SessionsMutant("named_later", "The host learns of a new session when it asks for the state.", "returns", RETURNING),
    SessionsMutant("name_not_synced", "What names the new session is not synced.", "returns", RETURNING),
    SessionsMutant(
        "named_read_before_lease",
        "A process does not look again at what the file names when it has the lease.",
        "returns",
        Part("small", False, 2, 1, 2),
    ),
)


def search_sessions(part: Part, folder: Path, *, mutant: str = "") -> Verdict:
    """Search every state of a part; stop at the first that breaks a property. `folder` is an empty one.

    Raises:
        SpinMissing: There is no Spin, or no C compiler.
        ModelBroken: One of them refuses the model.
    """
    values = {"SHARED": int(part.is_shared), "K": part.messages, "R": part.replacements, "F": part.crashes}
    if mutant:
        values[f"M_{mutant}"] = 1
    return Search(data.text(MODEL), folder, values, optimise=0).run()


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -P -m pinnace_campaigns.model_check.sessions", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--mutants", action="store_true", help="every fault")
    options = parser.parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="pinnace-sessions-model-"))
    code = HOLDS
    try:
        if options.mutants:
            for mutant in MUTANTS:
                verdict = search_sessions(mutant.part, folder / mutant.name, mutant=mutant.name)
                is_found = verdict.property == mutant.property
                what = f"{'found' if is_found else 'MISSED'} {mutant.name} by {mutant.property}"
                report(what, verdict, () if is_found else verdict.path)
                code = code if is_found else FAILS
            return code
        for part in (SHARED, RETURNING):
            verdict = search_sessions(part, folder / part.name)
            report(part.name, verdict, verdict.path)
            code = code_of(verdict, code)
    except (SpinMissing, ModelBroken) as error:
        sys.stderr.write(f"{error}\n")
        return BROKEN
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
