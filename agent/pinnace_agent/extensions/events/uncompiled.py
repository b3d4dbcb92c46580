"""Dataclasses with slots whose methods are shared, and whose fields are described when they are first asked for.

Some ninety classes of events and results are made when the first extension is loaded, and most are never used. For
each, `dataclass` compiles methods, describes the fields, and makes the class again with its slots, which takes as long
as half of everything else that is loaded then. Here a metaclass adds the slots when the class is made, and
`dataclass` itself describes the fields when something reads them, such as the first constructor. Fields, defaults,
`fields`, `replace` and `match` are those of a dataclass.
"""

import dataclasses
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, NoReturn, Self, TypeVar, get_origin

from typing_extensions import dataclass_transform

_T = TypeVar("_T", bound="Fields")


class _Own(NamedTuple):
    """What the body of a class says of its fields."""

    annotations: Mapping[str, object]
    defaults: Mapping[str, object]


class _FieldsType(type):
    """Makes classes whose annotated names are slots. One with slots of its own stays as it is."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], *, compiled: bool = False
    ) -> "_FieldsType":
        """Make a class; `compiled` leaves its fields to `dataclass`."""
        if compiled or "__slots__" in namespace:
            return super().__new__(cls, name, bases, namespace)
        annotations = _annotations_of(namespace)
        own = [
            each for each, value in annotations.items() if value is not ClassVar and get_origin(value) is not ClassVar
        ]
        inherited = {each for base in bases for of in base.__mro__ for each in of.__dict__.get("__slots__", ())}
        defaults = {each: namespace[each] for each in annotations if each in namespace}
        slots = tuple(each for each in own if each not in inherited)
        kept = {each: value for each, value in namespace.items() if each not in own}
        made = super().__new__(cls, name, bases, {**kept, "__slots__": slots})
        _own[made] = _Own(annotations, defaults)
        return made


def _annotations_of(namespace: Mapping[str, Any]) -> Mapping[str, object]:
    """Return the annotations in the body of a class."""
    if sys.version_info >= (3, 14):
        import annotationlib

        if (annotate := annotationlib.get_annotate_from_class_namespace(namespace)) is not None:
            return annotationlib.call_annotate_function(annotate, annotationlib.Format.FORWARDREF)
    found: Mapping[str, object] = namespace.get("__annotations__", {})
    return found


class _Described:
    """An attribute of classes that `dataclass` would set, found when it is first read."""

    def __init__(self, of_dataclass: Callable[[type[Any]], object]) -> None:
        self._of_dataclass = of_dataclass
        self._name = ""

    def __set_name__(self, _owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        if (found := _described.get((owner, self._name))) is None:
            found = _described[owner, self._name] = self._of_dataclass(owner)
        return found


def _dataclass_of(of: type[Any]) -> type[Any]:
    """Return a dataclass with the fields of a class, and no methods."""
    if (known := _dataclasses.get(of)) is None:
        bases = tuple(_dataclass_of(each) for each in of.__bases__ if isinstance(each, _FieldsType))
        annotations, defaults = _own.get(of, _Own({}, {}))
        body = {"__annotations__": dict(annotations), "__module__": of.__module__, "__doc__": "Fields.", **defaults}
        plain = type(of.__name__, bases, body)
        describe = dataclasses.dataclass(slots=True, init=False, repr=False, eq=False, kw_only=of in _by_name)
        known = _dataclasses[of] = describe(plain)
    return known


_own: Final[dict[type, _Own]] = {}
_by_name: Final[set[type]] = set()
"""The classes whose fields are given by name alone."""
_dataclasses: Final[dict[type, type[Any]]] = {}
_described: Final[dict[tuple[type, str], Any]] = {}


class _Form(NamedTuple):
    """What the constructor of a class needs to know."""

    names: tuple[str, ...]
    positional: tuple[str, ...]
    required: frozenset[str]
    defaults: Mapping[str, object]
    factories: Mapping[str, Any]


class Fields(metaclass=_FieldsType):
    """The base of such classes: constructor, comparison and text."""

    __slots__ = ()
    if not TYPE_CHECKING:
        __dataclass_fields__ = _Described(lambda of: _dataclass_of(of).__dataclass_fields__)
        __dataclass_params__ = _Described(lambda of: _dataclass_of(of).__dataclass_params__)
        __match_args__ = _Described(lambda of: _dataclass_of(of).__match_args__)

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
    _by_name.add(of)
    return of


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def frozen(of: type[_T]) -> type[_T]:
    """Make a class with fields that can't be set again; a class decorator."""
    return of


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
