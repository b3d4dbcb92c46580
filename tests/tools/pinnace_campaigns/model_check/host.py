"""`python -P -m pinnace_campaigns.model_check.host`: searches the model of the durable host, `spec/model/host.pml`.

    python -P -m pinnace_campaigns.model_check.host                     the small bounds, those of the test suite
    python -P -m pinnace_campaigns.model_check.host --bound all         the large ones, too
    python -P -m pinnace_campaigns.model_check.host --bound three       one of them
    python -P -m pinnace_campaigns.model_check.host --commands 3 --crashes 2 --compact  a bound of your own, by hashes
    python -P -m pinnace_campaigns.model_check.host --mutants           every fault of the model, found by its property
    python -P -m pinnace_campaigns.model_check.host --mutant no_dedupe  one of them, with the way to it

Prints a line for each search, then the way to what does not hold: the steps of clients, host and agent. Exit codes are
those of `python -P -m pinnace_campaigns.model_check`. Knows nothing of the statechart: the model is written by hand.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pinnace_campaigns.model_check.reporting import BROKEN, FAILS, HOLDS, add_limits, code_of, limits_of, report
from pinnace_campaigns.model_check.spin import NO_LIMITS, Limits, ModelBroken, Search, SpinMissing, Verdict
from pinnace_spec import data

MODEL: Final = "model/host.pml"

PROPERTIES: Final[Mapping[str, str]] = {
    "one_fate": "An accepted message is exactly one of delivered, queued and returned, as far as a client knows.",
    "at_most_once": "A message is delivered and sent to the model at most once, an abort takes effect at most once.",
    "own_answer": "A command that is answered with success has taken effect: the answer is its own.",
    "unknown_after_crash": "outcome_unknown is answered only after a crash of the host or of the agent.",
    "silence": "After an abort or a restart nothing is sent to a model until a message admitted later is accepted.",
    "fifo": "A queued message is delivered when those before it have been.",
    "no_gap": "A client reads each record of the journal in order, or a record that reports the gap.",
    "seen_is_written": "A client has read nothing that the journal does not hold, but for a loss of power.",
    "deadlock": "Each client gets its answers, and the agent comes to rest.",
}


class Bound(NamedTuple):
    """How much happens in one search, at most."""

    name: str
    commands: int
    """Of both clients together, in any division."""
    crashes: int
    """Cut connections, kills of host or agent, losses of power, clean ends of the agent."""
    has_events: bool = False
    """Whether there is a journal that the clients read."""
    records: int = 0
    """Emitted by agents besides those of commands."""


QUICK: Final = (
    Bound("two", 2, 2),
    Bound("four-without-crashes", 4, 0),
    Bound("records", 0, 3, has_events=True, records=2),
    Bound("events", 1, 2, has_events=True),
)
LARGE: Final = (
    Bound("three", 3, 1),
    Bound("two-many-crashes", 2, 4),
    Bound("two-with-events", 2, 1, has_events=True),
    Bound("more-records", 0, 4, has_events=True, records=4),
    Bound("three-many-crashes", 3, 2),
)
BOUNDS: Final = {bound.name: bound for bound in (*QUICK, *LARGE)}

_COMMANDS: Final = Bound("commands", 2, 1)
_TWICE: Final = BOUNDS["two"]
_EVENTS: Final = Bound("commands-and-events", 1, 1, has_events=True)
_RECORDS: Final = Bound("records", 0, 2, has_events=True, records=2)


class HostMutant(NamedTuple):
    """A fault of the model, which is a macro in it; a search within the bound finds that it breaks the property."""

    name: str
    text: str
    property: str
    bound: Bound = _COMMANDS


MUTANTS: Final = (
    # The session file and its queue.
    HostMutant("answer_before_sync", "A queued message is answered before it is on disk.", "one_fate"),
    HostMutant("request_before_sync", "The model is asked before the delivery is on disk.", "at_most_once"),
    HostMutant("clear_not_synced", "clear_queue is answered before the removal is on disk.", "one_fate"),
    HostMutant("refusal_not_synced", "A prompt is refused before that is on disk.", "one_fate"),
    HostMutant("open_not_synced", "What a killed process only wrote is relied upon.", "one_fate", _TWICE),
    HostMutant("clear_forgets", "A repeated clear_queue returns what is queued now.", "one_fate"),
    HostMutant("clear_drops_pending", "clear_queue drops the slot of a message that is being saved.", "one_fate"),
    HostMutant(
        "clear_takes_later",
        "clear_queue removes what is queued when it writes, not when it was admitted.",
        "deadlock",
        Bound("three-commands", 3, 0),
    ),
    HostMutant("refused_is_known", "The message of a refused prompt stays known.", "one_fate"),
    HostMutant("exit_returns_and_keeps", "An agent that exits returns its queue and keeps it.", "one_fate"),
    HostMutant("no_dedupe", "A message that the file knows is taken again.", "at_most_once"),
    HostMutant("duplicate_starts_run", "A repeated prompt without an answer starts its run.", "at_most_once"),
    # Pauses and slots.
    HostMutant("restored_runs", "A restored queue is delivered by itself.", "silence"),
    HostMutant("duplicate_releases", "A repeated message releases a restored queue.", "silence"),
    HostMutant(
        "late_fsync_lifts_pause",
        "A message that was admitted before an abort lifts the pause when it is saved.",
        "silence",
    ),
    HostMutant(
        "withdrawn_slot_lifts_pause",
        "A message that was withdrawn while it was being saved lifts the pause of a later abort.",
        "silence",
        BOUNDS["four-without-crashes"],
    ),
    HostMutant("prompt_survives_abort", "A prompt that is being checked is accepted after an abort.", "silence"),
    HostMutant(
        "abort_spares_delivery", "A message that is being delivered is sent to the model after an abort.", "silence"
    ),
    HostMutant("slot_overtaken", "A message is delivered before one whose slot is still being saved.", "fifo"),
    # Ids and answers.
    HostMutant("no_intent", "The host forwards a command before the id table has it.", "at_most_once"),
    HostMutant("intent_not_synced", "The id of an abort is written, not synced.", "at_most_once"),
    HostMutant("repeat_after_host_crash", "A new host takes a repeated abort again.", "at_most_once"),
    HostMutant("repeat_in_progress", "A repetition of a command in progress is forwarded.", "one_fate"),
    HostMutant("crash_resends_all", "After a crash of the agent the host sends aborts again, too.", "at_most_once"),
    HostMutant("begun_counts_as_done", "A repeated abort that had begun is answered with success.", "own_answer"),
    HostMutant("answer_not_stored", "An answer whose client is away is dropped.", "unknown_after_crash"),
    HostMutant("answer_to_other_client", "An answer goes to the first client that waits for its id.", "deadlock"),
    HostMutant("ids_shared", "The id table does not distinguish the names of clients.", "one_fate"),
    HostMutant("message_id_without_name", "The host makes a messageId of a client's id alone.", "one_fate"),
    HostMutant("sleeps_at_work", "An agent is put to sleep while a command is open.", "unknown_after_crash", _EVENTS),
    # The journal.
    HostMutant("epoch_not_synced", "After a loss of power an epoch's number is used again.", "no_gap", _RECORDS),
    HostMutant("sent_before_written", "A record is sent before the journal has it.", "seen_is_written", _RECORDS),
    HostMutant("silent_truncation", "A client behind the retention gets no report of it.", "no_gap", _RECORDS),
    HostMutant(
        "restart_claims_complete",
        "After a clean end nothing is said to be missing, although power was lost.",
        "no_gap",
        _RECORDS,
    ),
    HostMutant(
        "cursor_beyond_end_waits", "A cursor beyond the end of a closed epoch is not continued.", "no_gap", _RECORDS
    ),
)


def search_host(
    bound: Bound, folder: Path, *, mutant: str = "", optimise: int = 1, limits: Limits = NO_LIMITS
) -> Verdict:
    """Search every state within a bound for assertions that fail and for deadlocks; stop at the first.

    Args:
        bound: How much happens at most.
        folder: An empty one, for what is made.
        mutant: The name of a fault to put into the model.
        optimise: How hard the compiler tries.
        limits: When to give up, and whether to keep hashes.

    Raises:
        SpinMissing: There is no Spin, or no C compiler.
        ModelBroken: One of them refuses the model.
    """
    values = {"K": bound.commands, "F": bound.crashes, "EVENTS": int(bound.has_events), "RECORDS": bound.records}
    if mutant:
        values[f"M_{mutant}"] = 1
    return Search(data.text(MODEL), folder, values, optimise=optimise, limits=limits).run()


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; return the exit code."""
    options = _parser().parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="pinnace-host-model-"))
    try:
        if options.mutants or options.mutant:
            return _mutants([each for each in MUTANTS if options.mutants or each.name == options.mutant], folder)
        return _search(_bounds(options), folder, limits_of(options))
    except (SpinMissing, ModelBroken) as error:
        sys.stderr.write(f"{error}\n")
        return BROKEN
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -P -m pinnace_campaigns.model_check.host", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--bound", choices=["quick", "all", *BOUNDS], default="quick")
    parser.add_argument("--commands", type=int, help="of both clients, at most 4: a bound of your own")
    parser.add_argument("--crashes", type=int, help="cut connections, kills, losses of power (1)")
    parser.add_argument("--events", action="store_true", help="with the journal")
    parser.add_argument("--records", type=int, default=0, help="that agents emit by themselves; with --events")
    add_limits(parser)
    parser.add_argument("--mutant", choices=[each.name for each in MUTANTS])
    parser.add_argument("--mutants", action="store_true", help="every fault")
    return parser


def _bounds(options: argparse.Namespace) -> Sequence[Bound]:
    if options.commands is not None or options.crashes is not None:
        crashes = 1 if options.crashes is None else options.crashes
        return (Bound("own", options.commands or 0, crashes, options.events, options.records),)
    return {"quick": QUICK, "all": (*QUICK, *LARGE)}.get(options.bound) or (BOUNDS[options.bound],)


def _search(bounds: Sequence[Bound], folder: Path, limits: Limits) -> int:
    code = HOLDS
    for bound in bounds:
        verdict = search_host(bound, folder / bound.name, optimise=2, limits=limits)
        report(f"{bound.name} ({_described(bound)})", verdict, verdict.path)
        code = code_of(verdict, code)
    return code


def _described(bound: Bound) -> str:
    events = f", journal, {bound.records} records" if bound.has_events else ""
    return f"{bound.commands} commands, {bound.crashes} crashes{events}"


def _mutants(mutants: Sequence[HostMutant], folder: Path) -> int:
    code = HOLDS
    for mutant in mutants:
        verdict = search_host(mutant.bound, folder / mutant.name, mutant=mutant.name, optimise=0)
        is_found = verdict.property == mutant.property
        what = f"{'found' if is_found else 'MISSED'} {mutant.name} by {mutant.property}"
        report(what, verdict, verdict.path if len(mutants) == 1 or not is_found else ())
        code = code if is_found else FAILS
    return code


if __name__ == "__main__":
    sys.exit(main())
