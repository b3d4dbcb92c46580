"""Whether a project may configure the agent: the user's decision, now or earlier, and how it is stored.

`trust.json` in the agent folder is shared with pi. It maps the real path of a folder to true, false, or null for no
decision; a folder without a decision has that of its nearest parent. Another value is reported, and its folder is not
trusted. While the file can't be read, no project is trusted, whatever the default, and the file is never written. Never
asks the user. Has no knowledge of what a project brings.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pinnace_agent.config.settings import ProjectTrust
from pinnace_agent.core.diagnostics import Diagnostic, Problem
from pinnace_agent.files.relaxed_json import ConfigurationFileError, JsonObject, read_object

Decisions = Mapping[str, bool | None]

_CHANGED: Final = "what the project brings is not what was trusted; `pinnace trust` trusts it as it is now"


class Trust(NamedTuple):
    """Whether a project is trusted."""

    is_trusted: bool
    gated: tuple[Path, ...] = ()
    """What it brings that needs trust."""
    diagnostics: tuple[Diagnostic, ...] = ()


def trust_file(agent_dir: Path) -> Path:
    """Return where decisions are kept."""
    return agent_dir / "trust.json"


def read_decisions(path: Path) -> tuple[Decisions, tuple[Diagnostic, ...]]:
    """Read the decisions, by folder, and report values that are none, which count as decisions against the folder.

    Raises:
        ConfigurationFileError: The file can't be read.
    """
    content = read_object(path, is_relaxed=False) or {}
    decisions = {
        folder: decision if decision is None or isinstance(decision, bool) else False
        for folder, decision in content.items()
    }
    wrong = [folder for folder, decision in content.items() if decision is not decisions[folder]]
    problems = tuple(Problem(folder, "must be true, false or null") for folder in wrong)
    return decisions, (Diagnostic(str(path), problems, "these folders are not trusted"),) if problems else ()


def saved_decision(decisions: Decisions, folder: Path) -> bool | None:
    """Return the decision for a folder or its nearest parent; None if there is none."""
    real = Path(os.path.realpath(folder))
    for each in (real, *real.parents):
        if (decision := decisions.get(str(each))) is not None:
            return decision
    return None


TRUST_REMEDY: Final = "`pinnace trust` trusts it from now on, --approve for one run."
"""What a user can do about a project that is not trusted."""


def decide(
    path: Path,
    cwd: Path,
    gated: Sequence[Path],
    approved: bool | None,
    default: ProjectTrust,
    *,
    has_changed: Callable[[], bool] | None = None,
) -> Trust:
    """Return whether a project is trusted by, in this order: the command line, an earlier decision, the default.

    A project that brings nothing is trusted unless there is a decision against it. Where the original would ask the
    user, the project is not trusted.

    Args:
        path: The file of decisions.
        cwd: The project's folder.
        gated: What it brings that needs trust.
        approved: The decision of the command line, if there is one.
        default: The setting `defaultProjectTrust`.
        has_changed: Whether the project differs from what was trusted, if that ends an earlier decision for it. Called
            at most once, and only for such a decision about a project that brings something.
    """
    if approved is not None:
        return Trust(approved, tuple(gated))
    try:
        decisions, diagnostics = read_decisions(path)
    except ConfigurationFileError as error:
        # DEVIATION D-31: no file that is read ends the process.
        problem = Diagnostic(str(path), (Problem("", str(error)),), "no project is trusted")
        return Trust(False, tuple(gated), (problem,))
    saved = saved_decision(decisions, cwd)
    if saved and gated and has_changed is not None and has_changed():
        problem = Diagnostic(str(cwd), (Problem("", _CHANGED),), "it is not trusted")
        return Trust(False, tuple(gated), (*diagnostics, problem))
    if saved is not None:
        return Trust(saved, tuple(gated), diagnostics)
    return Trust(not gated or default == "always", tuple(gated), diagnostics)


def save_decision(path: Path, folder: Path, decision: bool) -> bool:
    """Store a decision for a folder and all below it; return whether that is new.

    Raises:
        ConfigurationFileError: The file can't be read, so it is left as it is.
        LockHeld: Another program does not let go of it.
        OSError: It can't be written.
    """
    name = os.path.realpath(folder)

    def change(content: JsonObject) -> JsonObject:
        return {**content, name: decision}

    # Not at start: most processes store no decision.
    from pinnace_agent.files.json_file import FileForm, edit_object

    return edit_object(path, change, FileForm(_encode)).is_changed


def distrust(path: Path, folder: Path) -> None:
    """Store that a folder is not trusted, unless there is a decision for it itself: the one of a folder above is not.

    Raises:
        ConfigurationFileError: The file can't be read, so it is left as it is.
        LockHeld: Another program does not let go of it.
        OSError: It can't be written.
    """
    decisions, _ = read_decisions(path)
    if decisions.get(os.path.realpath(folder)) is None and saved_decision(decisions, folder):
        save_decision(path, folder, False)


def _encode(content: JsonObject) -> str:
    """Write decisions as pi does: sorted, with a newline."""
    return json.dumps(content, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
