"""The tool that replaces texts in one file: all of them or none.

Reads, checks, replaces, writes; `tools.text` finds the matches and builds the replacements. Rules R-TOL-02, R-TOL-03.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple, cast

import trio

from pinnace_agent.files.relaxed_json import is_list, is_object
from pinnace_agent.files.text_file import encode_text
from pinnace_agent.llm.arguments import repair_strings
from pinnace_agent.tools.base import ToolContext, ToolError, ToolResult, text_argument, text_result
from pinnace_agent.tools.change_queue import FILE_CHANGES, NOT_BOUND, ChangeQueue, bound_to, unfollowed
from pinnace_agent.tools.local.files import LOCAL_EDIT, check_client_write, check_edit_size, is_same_outside
from pinnace_agent.tools.operations import BindsEdits, EditOperations, FollowsLinks
from pinnace_agent.tools.parameters import FILE, fields, items, text
from pinnace_agent.tools.paths import error_code, existing_path, notes_of, os_error_text, resolve_path
from pinnace_agent.tools.text.diff import LineDiff, line_diff
from pinnace_agent.tools.text.match import Edit, find_matches
from pinnace_agent.tools.text.replacement import (
    exact_replacements,
    fuzzy_replacements,
    lf_text,
    replaced_source,
    replaced_text,
)

_MOST_ENCODINGS: Final = 4
"""How often a model may have encoded a list of edits; more than twice was never seen."""

_BOM: Final = "\ufeff"

# DEVIATION D-35: an edit changes nothing else.
_KEPT_BYTES: Final = "surrogateescape"
"""Bytes that are not UTF-8 are written back unchanged; no text of a model matches them."""


PARAMETERS: Final = fields(
    {
        "path": FILE,
        "edits": items(
            fields(
                {
                    "oldText": text("The text to replace, exactly as in the file; unique there"),
                    "newText": text("What comes in its place"),
                }
            ),
            "The replacements, each looked up in the original file",
        ),
    }
)


class EditTool:
    """Replace texts in a file."""

    name: str = "edit"
    label: str = "edit"
    description: str = (
        "Replace texts in one file. Each edits[].oldText must occur exactly once in the file as it is now, "
        "and no two may overlap: all edits are looked up before any is made. Make one edit of changes that "
        "are close together. Keep oldText as short as is unique, and don't bridge distant changes with "
        "unchanged lines."
    )
    snippet: str = "Replace exact texts in a file, several at once"
    guidelines: tuple[str, ...] = (
        "Use edit for changes to existing files; oldText must match the file exactly.",
        "Put several changes of one file into one call of edit, as items of edits[].",
    )
    parameters: Mapping[str, object] = PARAMETERS
    is_sequential: bool = False
    checks_itself = False
    prefers_strict: bool = True

    def __init__(self, changes: ChangeQueue | None = None, operations: EditOperations = LOCAL_EDIT) -> None:
        """Edit through `operations`, by default files of this machine.

        The queue of `changes` is shared with everything else that changes files.
        """
        self._changes = changes or FILE_CHANGES.get()
        self._operations = operations
        self._real_path = operations.real_path if isinstance(operations, FollowsLinks) else None

    def prepare(self, raw: Mapping[str, object]) -> Mapping[str, object]:
        """Return a list of `edits` from the other forms of models and old sessions.

        These are JSON text, of all edits or of each, also encoded several times and with line ends in its strings; a
        single object; and `oldText` and `newText` beside `path`.
        """
        repaired = dict(raw)
        edits = _edit_list(raw["edits"]) if "edits" in raw else None
        if isinstance(raw.get("oldText"), str) and isinstance(raw.get("newText"), str):
            single = {"oldText": repaired.pop("oldText"), "newText": repaired.pop("newText")}
            edits = [*edits, single] if edits is not None and raw["edits"] is not None else [single]
        if edits is not None:
            repaired["edits"] = edits
        return repaired

    async def execute(self, args: Mapping[str, object], ctx: ToolContext) -> ToolResult:
        """Edit the file. Cancelling ends the call at once except during the write, which is atomic.

        Raises:
            ToolError: An edit does not apply, the system call failed, or the client refused; the file is unchanged.
            ApprovalOutdated: The path leads to another file than the one that was approved; nothing was changed.
        """
        path = text_argument(args, "path")
        edits = _edits(args)
        if not edits:
            raise ToolError("Edit tool input is invalid. edits must contain at least one replacement.")
        target = resolve_path(path, ctx.cwd)
        operations = self._operations if ctx.bound_path is None else self._without_links()

        async def real_path(path: str) -> str:
            return await (self._real_path or unfollowed)(await existing_path(path, ctx.cwd, self._exists))

        try:
            async with self._changes.hold(target, ctx.order, real_path), bound_to(ctx.bound_path, target, real_path):
                # Only now: nothing may wait before the lock, which is taken in call order.
                target = await existing_path(path, ctx.cwd, self._exists)
                file = target if ctx.bound_path is None else ctx.bound_path
                client = ctx.client_files if self._operations is LOCAL_EDIT else None
                if client is not None:
                    await check_client_write(file)
                    if not await is_same_outside(file, ctx.cwd):
                        client = None
                served = None if client is None else await client.begin_edit(file)
                data = await _content(operations, file, path) if served is None else served
                check_edit_size(path, len(data))
                edited = await trio.to_thread.run_sync(_edited, data, edits, path, abandon_on_cancel=True)
                if client is None or served is None:
                    await operations.write_file(file, edited.data)
                elif not await client.write(file, edited.data, is_bound=ctx.bound_path is not None):
                    # On the disk it may be another text than the one that was edited.
                    raise ToolError(f"{path} was not changed: the client that has it open can't write it.")
                # A call that was aborted during the write reports the abort.
                await trio.lowlevel.checkpoint_if_cancelled()
        except OSError as error:
            raise ToolError(os_error_text(error, "open", target)) from error
        return text_result(f"Successfully replaced {len(edits)} block(s) in {path}.", edited.diff.record())

    async def _exists(self, path: str) -> bool:
        try:
            await self._operations.access(path)
        except FileNotFoundError:
            return False
        except (OSError, ToolError):  # the edit will report it
            return True
        return True

    def _without_links(self) -> EditOperations:
        if not isinstance(self._operations, BindsEdits):
            raise ToolError(NOT_BOUND)
        return self._operations.without_links()


async def _content(operations: EditOperations, file: str, path: str) -> bytes:
    try:
        await operations.access(file)
    except IsADirectoryError as error:
        raise ToolError(os_error_text(error, "read")) from error
    except OSError as error:
        text = f"Could not edit file: {path}. Error code: {error_code(error)}."
        raise ToolError(" ".join([text, *(f"{note}." for note in notes_of(error))])) from error
    return await operations.read_file(file)


class _Edited(NamedTuple):
    data: bytes
    diff: LineDiff


def _edit_list(edits: object) -> list[object]:
    """Return the edits that a value stands for; what is no edit in any form is left to the validation."""
    edits = _decoded(edits)
    if not is_list(edits):
        return [edits]
    found: list[object] = []
    for each in edits:
        inner = _decoded(each)
        found += inner if is_list(inner) and inner is not each else [inner]
    return found


def _decoded(value: object) -> object:
    """Return the list or object that a JSON text stands for, however often it was encoded; else the value itself."""
    inner = value
    for _ in range(_MOST_ENCODINGS):
        if not isinstance(inner, str):
            break
        inner = _json_value(inner)
    return inner if is_list(inner) or is_object(inner) else value


def _json_value(text: str) -> object:
    for candidate in (text, repair_strings(text)):
        with suppress(ValueError, RecursionError):
            value: object = json.loads(candidate)
            return value
    return None


def _edits(args: Mapping[str, object]) -> list[Edit]:
    # The schema has checked the types.
    items = cast("Sequence[Mapping[str, str]]", args["edits"])
    # Line ends as in the text that is searched; lone surrogates could not be written.
    return [Edit(_clean(item["oldText"]), _clean(item["newText"])) for item in items]


def _clean(text: str) -> str:
    return lf_text(encode_text(text).decode("utf-8"))


def _edited(data: bytes, edits: Sequence[Edit], path: str) -> _Edited:
    check = trio.from_thread.check_cancelled
    content = data.decode("utf-8", _KEPT_BYTES)
    source = content.removeprefix(_BOM)
    text = lf_text(source)
    matches = find_matches(text, edits, path, check)
    if matches.is_fuzzy:
        replacements = fuzzy_replacements(text, matches.found)
    else:
        replacements = exact_replacements(matches.found)
    new = replaced_text(text, replacements)
    if new == text:
        what = "The replacement gives" if len(edits) == 1 else "The replacements give"
        raise ToolError(f"No changes made to {path}. {what} the text that is already there.")
    check()
    bom = content[: len(content) - len(source)]
    new_content = bom + replaced_source(source, replacements)
    return _Edited(new_content.encode("utf-8", _KEPT_BYTES), line_diff(text, new, replacements, path))
