"""Dataclasses with slots whose methods are shared, where `dataclass` compiles some for each class.

Some eighty classes of events and results are made when the first extension is loaded. To compile their methods took as
long as half of everything else that is loaded then. Fields, defaults, `fields` and `replace` are those of a dataclass.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, NoReturn, Self, TypeVar

from typing_extensions import dataclass_transform

_T = TypeVar("_T", bound="Fields")


class _Form(NamedTuple):
    """What the constructor of a class needs to know."""

    names: tuple[str, ...]
    positional: tuple[str, ...]
    required: frozenset[str]
    defaults: Mapping[str, object]
    factories: Mapping[str, Any]


class Fields:
    """The base of such classes: constructor, comparison and text."""

    __slots__ = ()

    def __init__(self, *args: object, **values: object) -> None:
        """Set all fields.

        Raises:
            TypeError: A field without a default is missing, or one is given that there is not, or twice.
        """
        form = _form_of(type(self))
        if args:
            self._name_positional(form, args, values)
        if not values.keys() <= form.defaults.keys() | form.required:
            unknown = next(each for each in values if each not in form.names)
            raise TypeError(f"{type(self).__name__}.__init__() got an unexpected keyword argument {unknown!r}")
        for name in form.names:
            if name in values:
                value = values[name]
            elif name in form.required:
                raise TypeError(f"{type(self).__name__}.__init__() missing a required argument: {name!r}")
            elif (factory := form.factories.get(name)) is not None:
                value = factory()
            else:
                value = form.defaults[name]
            object.__setattr__(self, name, value)

    def _name_positional(self, form: _Form, args: tuple[object, ...], values: dict[str, object]) -> None:
        if len(args) > len(form.positional):
            raise TypeError(f"{type(self).__name__}.__init__() takes {len(form.positional)} positional arguments")
        for name, value in zip(form.positional, args, strict=False):
            if name in values:
                raise TypeError(f"{type(self).__name__}.__init__() got multiple values for argument {name!r}")
            values[name] = value

    def __repr__(self) -> str:
        """Return the call that makes an equal object."""
        shown = (each.name for each in dataclasses.fields(self) if each.repr)  # type: ignore[arg-type]
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in shown)})"

    def __eq__(self, other: object) -> bool:
        """Return whether it is of the same class and has equal fields."""
        if type(other) is not type(self):
            return NotImplemented
        return _values(self) == _values(other)

    __hash__: Any = None  # its fields may change


class FrozenFields(Fields):
    """The base of such classes whose fields can't be set again."""

    __slots__ = ()

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Refuse it."""
        raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> NoReturn:
        """Refuse it."""
        raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")

    def __hash__(self) -> int:
        """Return the hash of the fields."""
        return hash(_values(self))

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy it by its constructor, since fields can't be set."""
        return _made, (type(self), dict(zip(_form_of(type(self)).names, _values(self), strict=True)))

    def __copy__(self) -> Self:
        """Return itself: nothing of it can be set."""
        return self


def _made(of: type[_T], values: Mapping[str, object]) -> _T:
    return of(**values)


def _values(self: Fields) -> tuple[object, ...]:
    return tuple(getattr(self, name) for name in _form_of(type(self)).names)


@dataclass_transform(kw_only_default=True, field_specifiers=(dataclasses.field,))
def mutable(of: type[_T]) -> type[_T]:
    """Make a class with fields that are given by name; a class decorator."""
    return dataclasses.dataclass(slots=True, kw_only=True, init=False, repr=False, eq=False)(of)


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def frozen(of: type[_T]) -> type[_T]:
    """Make a class with fields that can't be set again; a class decorator."""
    return dataclasses.dataclass(slots=True, init=False, repr=False, eq=False)(of)


def _form_of(of: type[Fields]) -> _Form:
    if (known := _forms.get(of)) is None:
        found = [each for each in dataclasses.fields(of) if each.init]  # type: ignore[arg-type]
        factories = {
            each.name: each.default_factory for each in found if each.default_factory is not dataclasses.MISSING
        }
        defaults = {each.name: each.default for each in found if each.default is not dataclasses.MISSING}
        names = tuple(each.name for each in found)
        known = _forms[of] = _Form(
            names,
            tuple(each.name for each in found if not each.kw_only),
            frozenset(names) - defaults.keys() - factories.keys(),
            {**defaults, **dict.fromkeys(factories)},
            factories,
        )
    return known


_forms: Final[dict[type[Fields], _Form]] = {}
