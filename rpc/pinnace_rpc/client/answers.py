"""Checks the data of a response before it gets a type: an object, if the command always has data."""

from pinnace_rpc.client.failures import ProtocolError


def data_of(command: str, data: object) -> object:
    """Return the data of a command that always has some.

    Raises:
        ProtocolError: There is none.
    """
    if not isinstance(data, dict):
        raise ProtocolError(f"{command} was answered without its data")
    return data  # pyright: ignore[reportUnknownVariableType]


def optional_data(data: object) -> object:
    """Return data that some agents or cases don't have; None then."""
    return data if isinstance(data, dict) and data else None  # pyright: ignore[reportUnknownVariableType]
