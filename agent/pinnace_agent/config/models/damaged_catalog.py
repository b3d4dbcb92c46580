"""What of a models.json with mistakes can be used, and what the rest leaves out.

Loaded only for such a file; for a valid one `catalog` gives the same result. A mistake costs the model or the provider
that is described so, also in the built-in catalog. Hints cost nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from pinnace_agent.config.models.builtin import index
from pinnace_agent.config.models.catalog_schema import check_file, check_model, check_override, check_provider
from pinnace_agent.core.diagnostics import Diagnostic, Problem, hints
from pinnace_agent.files.relaxed_json import JsonObject, is_list, is_object
from pinnace_agent.redaction.policy import Secret

# One screen. A file with more problems than this is of another kind.
_MAX_PROBLEMS: Final = 20


LeftOutFields = tuple[
    frozenset[str], frozenset[tuple[str, str]], tuple[Secret, ...], tuple[Mapping[str, Secret], ...], tuple[Secret, ...]
]


class UsableModels(NamedTuple):
    """What of a models.json can be used."""

    entries: dict[str, JsonObject]
    diagnostics: tuple[Diagnostic, ...]
    left_out: LeftOutFields = (frozenset(), frozenset(), (), (), ())
    """The fields of a `LeftOut` of the catalog."""


def usable_entries(path: Path, content: JsonObject) -> UsableModels:
    """Return the entries of a models.json, without what its mistakes leave out.

    Args:
        path: The file, for the diagnostics.
        content: What it holds.
    """
    outside = check_file(content)
    providers = content.get("providers", {})
    if not is_object(providers):
        return UsableModels({}, (Diagnostic(str(path), _screenful(outside), "the file is ignored"),))
    checked = [_Entry(provider, entry) for provider, entry in providers.items()]
    return UsableModels(
        {each.provider: each.usable for each in checked if each.usable is not None},
        (
            *hints(str(path), outside),
            *(diagnostic for each in checked for diagnostic in each.diagnostics(str(path))),
        ),
        _left_out(checked),
    )


def _screenful(problems: Sequence[Problem]) -> tuple[Problem, ...]:
    if len(problems) <= _MAX_PROBLEMS:
        return tuple(problems)
    rest = problems[_MAX_PROBLEMS:]
    return (*problems[:_MAX_PROBLEMS], Problem("", f"and {len(rest)} more", all(each.is_hint for each in rest)))


def _mistakes(problems: Sequence[Problem]) -> list[Problem]:
    return [each for each in problems if not each.is_hint]


class _Entry:
    """The entry of one provider: what of it can be used, and what is wrong with the rest."""

    def __init__(self, provider: str, entry: object) -> None:
        """Check an entry of models.json."""
        self.provider: Final = provider
        self._path = f"providers.{provider}"
        self.problems: Final = check_provider(provider, entry, self._path)
        """Those of the provider itself, hints among them."""
        self.left_out: Final[dict[str, list[Problem]]] = {}
        """The mistakes in descriptions of models, by the id of the model that they describe; empty: it has none."""
        self.damaged: Final[list[JsonObject]] = []
        """The descriptions that can't be used, as they are in the file."""
        self._hints: list[Problem] = []
        self.usable: JsonObject | None = None
        """The entry without damaged descriptions of models; None: nothing of it can be used."""
        if not is_object(entry):
            return
        models = list(self._models(entry))
        overrides = self._overrides(entry)
        if not _mistakes(self.problems):
            # The groups that are there stay there, also if they are empty now.
            kept = {name: group for name, group in (("models", models), ("modelOverrides", overrides)) if name in entry}
            self.usable = {**entry, **kept}
        else:
            self.damaged.append(entry)

    @property
    def mistakes(self) -> list[Problem]:
        """All problems but hints."""
        return [*_mistakes(self.problems), *(each for group in self.left_out.values() for each in group)]

    def diagnostics(self, file: str) -> Iterator[Diagnostic]:
        """Return what to report."""
        if self.usable is None:
            too = ", with its built-in models" if self.provider in index().providers else ""
            left_out = f'the provider "{self.provider}" is left out{too}'
            yield Diagnostic(file, _screenful(_mistakes(self.problems)), left_out)
        elif mistakes := self.mistakes:
            left_out = f'these models of the provider "{self.provider}" are left out'
            yield Diagnostic(file, _screenful(mistakes), left_out)
        yield from hints(file, _screenful([each for each in (*self.problems, *self._hints) if each.is_hint]))

    def _models(self, entry: JsonObject) -> Iterator[JsonObject]:
        models = entry.get("models", [])
        for place, model in enumerate(models if is_list(models) else []):
            path = f"{self._path}.models[{place}]"
            problems = check_model(model, path, self.provider, entry)
            if self._is_usable(model, model.get("id") if is_object(model) else None, problems) and is_object(model):
                yield model

    def _overrides(self, entry: JsonObject) -> JsonObject:
        overrides = entry.get("modelOverrides", {})
        return {
            model_id: override
            for model_id, override in (overrides.items() if is_object(overrides) else ())
            if self._is_usable(override, model_id, check_override(override, f"{self._path}.modelOverrides.{model_id}"))
        }

    def _is_usable(self, description: object, model_id: object, problems: Sequence[Problem]) -> bool:
        mistakes = _mistakes(problems)
        self._hints += [each for each in problems if each.is_hint]
        if mistakes:
            self.damaged.extend([description] if is_object(description) else [])
            self.left_out.setdefault(model_id if isinstance(model_id, str) else "", []).extend(mistakes)
        return not mistakes


def _left_out(checked: Sequence[_Entry]) -> LeftOutFields:
    damaged = [description for each in checked for description in each.damaged]
    headers = [fields for each in damaged if is_object(fields := each.get("headers"))]
    return (
        frozenset(each.provider for each in checked if each.usable is None),
        frozenset((each.provider, model_id) for each in checked for model_id in each.left_out),
        tuple(Secret(key) for each in damaged if isinstance(key := each.get("apiKey"), str)),
        tuple({name: Secret(value) for name, value in each.items() if isinstance(value, str)} for each in headers),
        tuple(Secret(address) for each in damaged if isinstance(address := each.get("baseUrl"), str)),
    )
