"""What is raised, as a value: it can be copied, pickled and printed, wherever it is carried to."""

import copy
import pickle

import pytest

import pinnace
import pinnace.extensions
from pinnace_rpc.client.failures import (
    AgentExited,
    ClientClosed,
    ClientFailure,
    CommandFailed,
    FellBehind,
    ProtocolError,
    RunFailed,
    StartFailed,
)
from pinnace_rpc.client.records.progress import Run
from pinnace_spec.records.parsing import CommandError
from pinnace_spec.rules.errors import ClientError, ErrorCode, InternalError
from pinnace_spec.wire.json_text import WireError

FAILED = Run("half", [{"role": "user", "content": "go", "timestamp": 1}], "error", False, "401", None)
PUBLIC = [getattr(module, name) for module in (pinnace, pinnace.extensions) for name in module.__all__]
PUBLIC_EXCEPTIONS = {each for each in PUBLIC if isinstance(each, type) and issubclass(each, Exception)}
EXAMPLES: list[Exception] = [
    AgentExited(["pinnace", "--mode", "rpc"], -9, "no such moon", "'{'"),
    ClientClosed(),
    ClientFailure("the client has failed"),
    CommandFailed("prompt", "busy now", "busy"),
    FellBehind(3),
    ProtocolError("not JSON", b"Segmentation fault"),
    ProtocolError("get_state was answered without its data"),
    RunFailed(FAILED),
    StartFailed("no such model", 1),
    ClientError("no such file", ErrorCode.IO_ERROR),
    InternalError("a fault"),
    CommandError("message must be a string", ErrorCode.INVALID_FIELD, "prompt", "7", has_id=True),
    WireError("not UTF-8"),
    *(kind("why") for kind in sorted(PUBLIC_EXCEPTIONS, key=str) if not issubclass(kind, ClientFailure)),
]


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_exception_survives_pickling_and_copying(error: Exception) -> None:
    error.add_note("seen by a test")
    copies = [
        *(pickle.loads(pickle.dumps(error, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)),
        copy.copy(error),
        copy.deepcopy(error),
    ]

    for each in copies:
        assert type(error) is type(each)
        assert (str(error), repr(error), error.args) == (str(each), repr(each), each.args)
        assert vars(error) == vars(each)


def test_every_public_exception_is_among_them() -> None:
    assert {FellBehind, ClientClosed, pinnace.extensions.ToolError} <= PUBLIC_EXCEPTIONS
    assert set() == PUBLIC_EXCEPTIONS - {type(each) for each in EXAMPLES}
