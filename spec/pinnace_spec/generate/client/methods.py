"""The methods of the Python client: one for each command, under its name on the wire, for trio and blocking.

Arguments are the wire's fields in snake case, left out when they are not given. What a method returns is the data of
its answer, as it is on the wire.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, cast

from pinnace_spec.generate.client.declared_types import Written, family, field_type
from pinnace_spec.generate.client.records import ROOM, commands_with_methods, models_in
from pinnace_spec.generate.client.records import types as record_types
from pinnace_spec.generate.client.source_text import call, docstring, imports, module_docstring
from pinnace_spec.generate.schema.field_meanings import MEANINGS
from pinnace_spec.generate.schema.model_texts import command_texts
from pinnace_spec.generate.source import Spec
from pinnace_spec.records import messages
from pinnace_spec.records.commands import MODELS, CommandModel
from pinnace_spec.records.responses import DATA, MAY_LACK_DATA

LEFT_OUT: Final = frozenset({"id", "type", "attachments", "delegate"})
"""Fields without a parameter: attachments are images and documents in the oldest generation, and this client has no
files to offer."""
_FAILURES: Final = "All raise `CommandFailed` if the agent reports a failure, and `AgentExited` if it has exited."
_ASYNC: Final = (
    "The commands as typed methods: one a command, under its wire name.",
    "Arguments are the wire's fields in snake case, left out when they are not given. Each method waits for its answer"
    " and returns its data as it is. Has no access to the transport: `request` is the only way to send.",
    f"{_FAILURES} Cancelled while it waits, a command that was not written yet is not sent; a written one is executed.",
)
_BLOCKING: Final = (
    "The commands as methods that block, and may be called from any thread. See `commands`.",
    _FAILURES,
)
_CLASS: Final = '''

class {name}(ABC):
    """Every command of the published protocol, of the later generations, and of pinnace."""

    @abstractmethod
    {definition} request(self, command: str, /, **fields: object) -> object:
        """Send any command, also one without a method here; return its data. Fields that are None are left out."""
'''


class _Parameter(NamedTuple):
    wire: str
    written: Written
    is_required: bool
    text: str

    @property
    def name(self) -> str:
        # With its unit, as everywhere.
        return "timeout_s" if self.wire == "timeout" else re.sub(r"(?<!^)(?=[A-Z])", "_", self.wire).lower()

    @property
    def declared(self) -> str:
        return f"{self.name}: {self.written.text}" + ("" if self.is_required else " | None = None")


def client_methods(_spec: Spec) -> str:
    """Return `client/commands.py`."""
    return _module(is_async=True)


def blocking_client_methods(_spec: Spec) -> str:
    """Return `client/blocking_commands.py`."""
    return _module(is_async=False)


def _module(*, is_async: bool) -> str:
    needed: set[tuple[str, str]] = {("abc", "ABC"), ("abc", "abstractmethod"), ("typing", "cast")}
    methods = "".join(_method(name, needed, is_async=is_async) for name in commands_with_methods())
    needed |= {("pinnace_rpc.client.answers", name) for name in ("data_of", "optional_data") if f"{name}(" in methods}
    needed |= {("typing", "Literal")} if "Literal[" in methods else set()
    needed |= {("collections.abc", "Sequence")} if "Sequence[" in methods else set()
    about, name = (_ASYNC, "Commands") if is_async else (_BLOCKING, "BlockingCommands")
    definition = "async def" if is_async else "def"
    return module_docstring(*about) + imports(needed) + _CLASS.format(name=name, definition=definition) + methods


def _method(name: str, needed: set[tuple[str, str]], *, is_async: bool) -> str:
    model = MODELS[name]
    parameters = list(_parameters(model))
    for each in parameters:
        needed |= each.written.imports
    returned, conversion = _answer(name, needed)
    required = [each.declared for each in parameters if each.is_required]
    optional = [each.declared for each in parameters if not each.is_required]
    arguments = ["self", *required, *(["*", *optional] if optional else [])]
    definition, wait = ("async def", "await ") if is_async else ("def", "")
    about = docstring(
        _spoken(_doc(model), parameters),
        "        ",
        [(each.name, _spoken(each.text, parameters)) for each in parameters],
    )
    lines = ["", call(f"{definition} {name}", arguments, f" -> {returned}:", "    "), about]
    request = [f'"{name}"', *(f"{each.wire}={each.name}" for each in parameters)]
    if conversion:
        lines.append(call(f"data = {wait}self.request", request, "", "        "))
        lines.append(f"        return {conversion}")
    else:
        lines.append(call(f"{wait}self.request", request, "", "        "))
    return "\n".join(lines) + "\n"


def _doc(model: type[CommandModel]) -> str:
    return " ".join((model.__doc__ or "").split())


def _spoken(text: str, parameters: Iterable[_Parameter]) -> str:
    """Name parameters as they are named here, where a text names them as the wire does."""
    for each in parameters:
        text = text.replace(f"`{each.wire}`", f"`{each.name}`")
    return text


def _parameters(model: type[CommandModel]) -> Iterator[_Parameter]:
    texts = command_texts().get(model.__name__, {})
    for name, field in model.model_fields.items():
        wire = field.alias or name
        if wire in LEFT_OUT:
            continue
        written = field_type(model, name, nullable=field.is_required())
        written = written._replace(text=re.sub(r"\blist\[", "Sequence[", written.text))
        text = texts.get(name) or MEANINGS.get(f"{model.__name__}.{wire}") or MEANINGS.get(wire, "")
        yield _Parameter(wire, written, field.is_required(), text)


def _answer(name: str, needed: set[tuple[str, str]]) -> tuple[str, str]:
    """Return what a method returns, and how it makes that of the data; nothing for an answer without data."""
    promised = [data[name] for data in cast("Mapping[str, Mapping[str, Any]]", DATA).values() if name in data]
    models = [model for each in promised for model in models_in(each)]
    if models:
        module = record_types()[family(models[0])].module
        needed.add((ROOM, module))
        returned = f"{module}.{family(models[0])}"
    elif messages.Model in promised:
        returned = "Model"
        needed.add((messages.__name__, returned))
    else:
        return "None", ""
    may_lack = name in MAY_LACK_DATA or any(each is None or _takes_none(each) for each in promised)
    if may_lack:
        returned = f"{returned} | None"
        return returned, f'cast("{returned}", optional_data(data))'
    return returned, f'cast("{returned}", data_of("{name}", data))'


def _takes_none(annotation: object) -> bool:
    return type(None) in getattr(annotation, "__args__", ())
