"""A model as clients see it: without the password that its address may hold.

Requests need the address as the user wrote it; a record with it would end in the log of some client.
"""

from collections.abc import Iterable
from urllib.parse import urlsplit

from pinnace_spec.messages import Model


def shown_model(model: Model) -> Model:
    """Return the model itself, or a copy whose address names nobody."""
    address = model["baseUrl"]
    if "@" not in address:
        return model
    try:
        parts = urlsplit(address)
        shown = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
    except ValueError:  # no address at all, so nobody knows where a password would stand
        shown = ""
    return {**model, "baseUrl": shown}


def shown_models(models: Iterable[Model]) -> list[Model]:
    """Return all of them so."""
    return [shown_model(model) for model in models]
