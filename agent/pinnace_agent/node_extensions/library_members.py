"""What the functions of pi's packages ask that work on messages, texts and files: what the agent knows already."""

import base64
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from pinnace_agent.node_extensions.bridge import Bridge
from pinnace_agent.node_extensions.errors import RefusedRequest
from pinnace_agent.node_extensions.values import Ask, Now, Values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pinnace_agent.compaction.prompts import Part
    from pinnace_spec.records.messages import Model


# --- summaries --------------------------------------------------------------------------------------------------------


def _summary_request(_bridge: Bridge, _number: int | None, values: Values) -> object:
    """Return the request for a summary; the wording has `part`, `previousSummary`, `instructions` and `replaces`."""
    from pinnace_agent.compaction.prompts import SYSTEM_PROMPT, request_text, request_text_as_wanted
    from pinnace_agent.compaction.serialisation import paragraphs
    from pinnace_agent.session.store.message_repair import whole_message

    wording = values.record(0, "wording")
    names = ("previousSummary", "instructions")
    given = Values("summary_request", [wording.get(name) for name in names])
    previous, instructions = (given.text_or_none(place, name) for place, name in enumerate(names))
    messages = [whole for each in values.records(1, "messages") if (whole := whole_message(each, None)) is not None]
    conversation = paragraphs(messages)
    if wording.get("replaces") is True and instructions:
        return {"systemPrompt": SYSTEM_PROMPT, "text": request_text_as_wanted(conversation, instructions)}
    part: Part = "turn_prefix" if wording.get("part") == "turn_prefix" else "history"
    return {"systemPrompt": SYSTEM_PROMPT, "text": request_text(part, conversation, previous, instructions)}


def _with_turn_prefix(_bridge: Bridge, _number: int | None, values: Values) -> object:
    from pinnace_agent.compaction.prompts import with_turn_prefix

    return with_turn_prefix(values.text_or_none(0, "history"), values.text(1, "prefix"))


def _with_files(_bridge: Bridge, _number: int | None, values: Values) -> object:
    """Return a summary with the files that were read and changed, and both lists."""
    from pinnace_agent.compaction.file_operations import FileOperations, with_file_blocks

    read, modified = (set(values.texts(place, name)) for place, name in ((1, "read"), (2, "modified")))
    files = FileOperations(tuple(sorted(read - modified)), tuple(sorted(modified)))
    return {"summary": with_file_blocks(values.text(0, "summary"), files), "details": files.details()}


# --- skills and context files -----------------------------------------------------------------------------------------


def _skills(_bridge: Bridge, _number: int | None, values: Values) -> object:
    """Return the skills of a folder, or the one of a file, with warnings, in the order in which they are found."""
    from pinnace_agent.prompting.origin import Origin, Resource
    from pinnace_agent.prompting.skills import read_skill
    from pinnace_agent.prompting.templates import ResourceProblem
    from pinnace_agent.search.resource_files import SKILL_FILE, FoundFile, TooManyNames, skill_files

    path = values.text(0, "path")
    found: list[FoundFile] = []
    skills: list[Mapping[str, object]] = []
    warnings: list[Mapping[str, str]] = []
    if not os.path.isdir(path):
        found.append(FoundFile(path, is_declared=os.path.basename(path) == SKILL_FILE))
    else:
        try:
            found.extend(skill_files(path, takes_files=True))
        except TooManyNames:
            warnings.append({"path": path, "message": "contains too many files, so not all of them were read"})
    for each in found:
        try:
            read = read_skill(Resource(each.path, Origin("temporary", "local"), each.is_declared))
        except ResourceProblem as error:
            warnings.append({"path": each.path, "message": error.text})
            continue
        if read is not None:
            skill = read.skill
            fields = {"name": skill.name, "description": skill.description, "filePath": skill.path}
            skills.append({**fields, "disableModelInvocation": skill.is_hidden})
            warnings += ({"path": each.path, "message": warning} for warning in read.warnings)
    return {"skills": skills, "warnings": warnings}


def _skill_list(_bridge: Bridge, _number: int | None, values: Values) -> object:
    from pinnace_agent.prompting.origin import Origin
    from pinnace_agent.prompting.skills import Skill, listed_skills

    skills = [
        Skill(str(each.get("name")), str(each.get("description")), str(each.get("filePath")), Origin("temporary", ""))
        for each in values.records(0, "skills")
    ]
    return listed_skills(skills, values.text(1, "reader"))


def _context_files(_bridge: Bridge, _number: int | None, values: Values) -> object:
    from pinnace_agent.core.surroundings import environment
    from pinnace_agent.prompting.context_files import read_context_files

    read = read_context_files(Path(values.text(1, "agentDir")), Path(values.text(0, "cwd")), environment())
    return [{"path": each.path, "content": each.text} for each in read.files]


def _needs_trust(_bridge: Bridge, _number: int | None, values: Values) -> object:
    from pinnace_agent.core.surroundings import environment
    from pinnace_agent.files.paths import gated_project_files

    return bool(gated_project_files(Path(os.path.realpath(values.text(0, "cwd"))), environment()))


def _trust_entry(_bridge: Bridge, _number: int | None, values: Values) -> object:
    """Return the decision for a folder or the nearest one above it; None: there is none."""
    from pinnace_agent.config.trust import read_decisions, trust_file

    decisions, _ = read_decisions(trust_file(Path(values.text(0, "agentDir"))))
    real = Path(os.path.realpath(values.text(1, "cwd")))
    found = ((str(each), decisions.get(str(each))) for each in (real, *real.parents))
    return next(({"path": path, "decision": decision} for path, decision in found if decision is not None), None)


# --- the choice of models ---------------------------------------------------------------------------------------------


def _resolve_model(_bridge: Bridge, _number: int | None, values: Values) -> object:
    """Find the model that `pattern` names, among given ones; `usable` are the providers with a key."""
    from pinnace_agent.config.models.patterns import ModelRequest, PatternResolver
    from pinnace_agent.config.models.thinking import is_level

    request = values.record(1, "request")
    given = Values("resolveCliModel", [request.get(name) for name in ("cliModel", "cliProvider", "cliThinking")])
    level = given.text_or_none(2, "cliThinking")
    usable = set(values.texts(2, "usable"))
    found = PatternResolver(_Given(values), lambda model: model["provider"] in usable).resolve(
        ModelRequest(
            given.text(0, "cliModel"),
            given.text_or_none(1, "cliProvider"),
            level if level is not None and is_level(level) else None,
            has_key=request.get("inlineApiKey") is True,
        )
    )
    return {"model": found.model, "thinkingLevel": found.level, "warning": found.warning, "error": found.error}


class _Given:
    """The models of a request, by provider."""

    def __init__(self, values: Values) -> None:
        self._models = cast("list[Model]", values.records(0, "models"))  # cast: those of a runtime

    def providers(self) -> "Sequence[str]":
        return list(dict.fromkeys(model["provider"] for model in self._models))

    def models_of(self, provider: str) -> "Sequence[Model]":
        return [model for model in self._models if model["provider"] == provider]

    def default_of(self, provider: str) -> "Model | None":
        return next(iter(self.models_of(provider)), None)


def _resolve_scope(_bridge: Bridge, _number: int | None, values: Values) -> object:
    """Find the models that a pattern names among given ones."""
    from pinnace_agent.config.models.scope import resolve_scope

    models = cast("list[Model]", values.records(0, "models"))  # cast: as above
    scope = resolve_scope([values.text(1, "pattern")], models)
    chosen = [{"model": each.model, "thinkingLevel": each.level} for each in scope.models]
    return {"models": chosen, "warnings": list(scope.warnings)}


# --- differences and images -------------------------------------------------------------------------------------------


def _text_diff(_bridge: Bridge, _number: int | None, values: Values) -> object:
    from pinnace_agent.tools.text.diff import text_diff

    lines = values.number(3, "contextLines")
    found = text_diff(values.text(0, "oldContent"), values.text(1, "newContent"), values.text(2, "path"), lines)
    return None if found is None else found.record()


def _image_type(_bridge: Bridge, _number: int | None, values: Values) -> object:
    from pinnace_agent.tools.images.header import image_type

    return image_type(_image(values))


async def _png(_bridge: Bridge, _number: int | None, values: Values) -> object:
    """Return an image as PNG; None if it can't be made one."""
    from pinnace_agent.tools.images.fitting import UnfitImage, as_png

    try:
        return base64.b64encode(await as_png(_image(values))).decode("ascii")
    except UnfitImage:
        return None


async def _fit_image(_bridge: Bridge, _number: int | None, values: Values) -> object:
    """Return an image within limits, with its size before and after; None if there is none."""
    from pinnace_agent.tools.images.fitting import PROVIDERS, UnfitImage, fit_image
    from pinnace_agent.tools.images.header import image_size, image_type

    data, options = _image(values), values.record(1, "options")
    names = {
        "maxWidth": "max_width",
        "maxHeight": "max_height",
        "maxBytes": "max_base64_bytes",
        "jpegQuality": "jpeg_quality",
    }
    given = Values("resizeImage", [options.get(name) for name in names])
    chosen = {own: given.number_or_none(place, name) for place, (name, own) in enumerate(names.items())}
    limits = PROVIDERS._replace(**{own: value for own, value in chosen.items() if value is not None})
    if (found := image_type(data)) is None:
        return None
    try:
        fitted = await fit_image(data, found, limits=limits)
    except UnfitImage:
        return None
    shown = image_type(fitted.data)
    size = None if shown is None else image_size(fitted.data, shown)
    if size is None:
        return None
    return {
        "data": base64.b64encode(fitted.data).decode("ascii"),
        "mimeType": fitted.mime_type,
        "original": [*(fitted.original_size or size)],
        "size": [*size],
    }


def _image(values: Values) -> bytes:
    try:
        return base64.b64decode(values.text(0, "data"), validate=True)
    except ValueError:
        raise RefusedRequest("the data of the image must be base64") from None


NOW: Final[Mapping[str, Now]] = {
    "summary_request": _summary_request,
    "with_turn_prefix": _with_turn_prefix,
    "with_files": _with_files,
    "skills": _skills,
    "skill_list": _skill_list,
    "context_files": _context_files,
    "needs_trust": _needs_trust,
    "trust_entry": _trust_entry,
    "resolve_model": _resolve_model,
    "resolve_scope": _resolve_scope,
    "text_diff": _text_diff,
    "image_type": _image_type,
}

ASK: Final[Mapping[str, Ask]] = {
    "png": _png,
    "fit_image": _fit_image,
}
