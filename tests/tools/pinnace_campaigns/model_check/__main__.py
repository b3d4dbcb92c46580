"""Searches the models with Spin, and plays their paths against the real agent.

    python -P -m pinnace_campaigns.model_check                            model run, all commands, three of them
    python -P -m pinnace_campaigns.model_check --set queues --commands 5  a smaller set of commands, more of them
    python -P -m pinnace_campaigns.model_check --claims --commands 3      the formulas too, one search each
    python -P -m pinnace_campaigns.model_check --model tools --set all    another model
    python -P -m pinnace_campaigns.model_check --mutant hold_forgotten    a fault: must be found
    python -P -m pinnace_campaigns.model_check --mutants                  every fault
    python -P -m pinnace_campaigns.model_check --paths 1000 --seed 1 [--set core]  random paths against the agent

Prints a line for each search: states, depth, seconds, and what does not hold, then the way to it as a client's script.
Exit code 0: everything holds (a fault: its property found it); 1: something does not; 2: Spin is missing, or the model
is broken; 3: a limit was reached first.
"""

import argparse
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from pinnace_campaigns.model_check.paths import read_path
from pinnace_campaigns.model_check.reporting import BROKEN, FAILS, HOLDS, add_limits, code_of, limits_of, report
from pinnace_campaigns.model_check.spin import NO_LIMITS, Limits, ModelBroken, Search, SpinMissing, Verdict
from pinnace_spec.generate.promela.mutants import MUTANTS, Mutant, mutated
from pinnace_spec.generate.promela.promela import model_text, sets_of
from pinnace_spec.generate.promela.properties import CLAIMED, MODELS, ModelName
from pinnace_spec.generate.promela.rows import PromelaError
from pinnace_spec.generate.source import load

_CLAIMS = {each.name for each in CLAIMED}


def set_number(model: ModelName, name: str) -> int:
    """Return the number that a search of a command set is compiled with."""
    return list(sets_of(model)).index(name)


def search(
    model: ModelName,
    chosen: str,
    commands: int,
    folder: Path,
    *,
    claims: Sequence[str] = (),
    text: str = "",
    optimise: int = 1,
    limits: Limits = NO_LIMITS,
) -> list[tuple[str, Verdict]]:
    """Search a model for its assertions and deadlocks, or for each of some formulas; return what was found.

    Args:
        model: Which.
        chosen: The set of commands.
        commands: How many the client sends at most.
        folder: For what is made.
        claims: Formulas to look at instead of the assertions.
        text: Another text than the rows make.
        optimise: How hard the compiler tries.
        limits: When to give up, and whether to keep hashes.
    """
    values = {"N": commands, "SET": set_number(model, chosen)}
    text = text or model_text(model, load().rows)
    compiled = Search(text, folder, values, has_claims=bool(claims), optimise=optimise, limits=limits)
    return [(claim, compiled.run(claim)) for claim in (claims or [""])]


def search_mutant(mutant: Mutant, folder: Path) -> Verdict:
    """Search for a fault with the property that must find it."""
    claims = [mutant.property] if mutant.property in _CLAIMS else []
    text = mutated(mutant, load().rows)
    found = search(mutant.model, mutant.chosen, mutant.commands, folder, claims=claims, text=text, optimise=0)
    return found[0][1]


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; return the exit code."""
    options = _parser().parse_args(arguments)
    folder = Path(tempfile.mkdtemp(prefix="pinnace-model-"))
    try:
        if options.paths:
            from pinnace_campaigns.model_check.campaign import campaign

            return campaign(options.set or "core", options.commands or 6, options.seed, options.paths, folder)
        if options.mutants or options.mutant:
            return _mutants([each for each in MUTANTS if options.mutants or each.name == options.mutant], folder)
        return _search(options, folder)
    except (SpinMissing, ModelBroken, PromelaError) as error:
        sys.stderr.write(f"{error}\n")
        return BROKEN
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -P -m pinnace_campaigns.model_check", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--model", choices=MODELS, default="run")
    parser.add_argument("--set", help="which commands; see docs/model-checking.md")
    parser.add_argument("--commands", type=int, help="how many at most (3)")
    parser.add_argument("--claims", action="store_true", help="search for the formulas, one after another")
    parser.add_argument("--claim", action="append", choices=sorted(_CLAIMS), help="search for this formula")
    add_limits(parser)
    parser.add_argument("--mutant", choices=[each.name for each in MUTANTS])
    parser.add_argument("--mutants", action="store_true", help="every fault")
    parser.add_argument("--paths", type=int, default=0, help="play so many random paths against the agent")
    parser.add_argument("--seed", type=int, default=1, help="of the first path")
    return parser


def _search(options: argparse.Namespace, folder: Path) -> int:
    sets = sets_of(options.model)
    chosen = options.set or next(iter(sets))
    if chosen not in sets:
        sys.stderr.write(f"model {options.model} has no set {chosen} (there are: {', '.join(sets)})\n")
        return BROKEN
    claims = options.claim or ([each.name for each in CLAIMED] if options.claims else [])
    found = search(
        options.model,
        chosen,
        options.commands or 3,
        folder,
        claims=claims,
        optimise=2,
        limits=limits_of(options),
    )
    code = HOLDS
    for claim, verdict in found:
        what = f"{options.model} {chosen} N={options.commands or 3} {claim or 'assertions'}"
        report(what, verdict, read_path(verdict.path).steps)
        code = code_of(verdict, code)
    return code


def _mutants(mutants: Sequence[Mutant], folder: Path) -> int:
    code = HOLDS
    for mutant in mutants:
        verdict = search_mutant(mutant, folder / mutant.name)
        is_found = verdict.property == mutant.property
        what = f"{'found' if is_found else 'MISSED'} {mutant.name} by {mutant.property}"
        report(what, verdict, () if is_found else read_path(verdict.path).steps)
        code = code if is_found else FAILS
    return code


if __name__ == "__main__":
    sys.exit(main())
