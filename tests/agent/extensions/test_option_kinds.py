"""`option_kinds` and `url` of a choice: what each option means, and what is to be opened. R-UI-06, R-UI-07."""

from collections.abc import Mapping
from typing import Any

import pytest
import trio
import trio.testing

from pinnace_agent.extensions.api.user_interface import RpcUserInterface, UserInterface
from pinnace_agent.extensions.registration.registrations import Generation
from pinnace_agent.extensions.services.dialogs import DialogTable


async def test_the_options_of_a_choice_have_kinds() -> None:
    """R-UI-06."""
    frames: list[Mapping[str, object]] = []
    table = DialogTable(frames.append)
    ui = RpcUserInterface(Generation(), table, frames.append)

    async def ask() -> None:
        await ui.select("Run it?", ["Yes", "No"], option_kinds=["allow_once", "reject_once"])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        table.close_all()

    assert ["allow_once", "reject_once"] == frames[0]["optionKinds"]


@pytest.mark.parametrize("kinds", [[], ["allow_once"], ["allow_once", "never"], "ab"])
@pytest.mark.parametrize("has_user", [True, False])
async def test_kinds_that_do_not_fit_the_options_are_refused(kinds: Any, has_user: bool) -> None:
    """R-UI-06: in every mode."""
    frames: list[Mapping[str, object]] = []
    generation = Generation()
    table = DialogTable(frames.append)
    ui = RpcUserInterface(generation, table, frames.append) if has_user else UserInterface(generation)
    with pytest.raises(ValueError, match="option_kinds must have one of allow_always, allow_once"):
        await ui.select("Run it?", ["Yes", "No"], option_kinds=kinds)
    assert [] == frames


@pytest.mark.parametrize("has_user", [True, False])
async def test_only_an_address_of_the_web_is_opened(has_user: bool) -> None:
    """R-UI-07: in every mode."""
    frames: list[Mapping[str, object]] = []
    generation = Generation()
    table = DialogTable(frames.append)
    ui = RpcUserInterface(generation, table, frames.append) if has_user else UserInterface(generation)
    with pytest.raises(ValueError, match="url must begin with https:// or http://"):
        await ui.select("Open it?", ["Opened", "Decline"], url="javascript:alert(1)")
    assert frames == []
