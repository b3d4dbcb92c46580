"""The mailbox of a sub-agent, with every order of what its sender, its pipes and the sub-agent itself may do.

A message is sent when it is on the disk, which may refuse it. The model of the sub-agent is what the rules of queues
say of it: a message that comes while it works is queued, one that comes when it has settled starts a run, it settles
only with an empty queue, and an answer precedes what follows from it. Its file has its queue and its conversation, also
when it has ended, and another agent may continue with it. Rules R-SUB-10, R-SUB-12.
All states that can be reached are visited.
"""

import copy
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

import pytest

from pinnace_rpc.subagents.mailbox import Mailbox

NAMES = ("m1", "m2", "m3")
Output = tuple[str, str]


@dataclass
class World:
    """A parent with its mailbox, a sub-agent, and the pipes between them."""

    mailbox: Mailbox = field(default_factory=Mailbox)
    unsaved: list[str] = field(default_factory=list[str])
    """What the disk does not have yet."""
    unsent: list[str] = field(default_factory=list[str])
    """What the sender has not written yet."""
    is_asking: bool = False
    """Whether the sender waits for an answer."""
    to_child: list[str] = field(default_factory=list[str])
    from_child: list[Output] = field(default_factory=list[Output])
    is_working: bool = True
    is_gone: bool = False
    queue: list[str] = field(default_factory=list[str])
    conversation: list[str] = field(default_factory=list[str])
    accepted: list[str] = field(default_factory=list[str])
    refused: int = 0
    has_failed: bool = False
    """Whether the sub-agent has, of itself."""
    is_over: bool = False

    def key(self) -> object:
        shown = {name: value for name, value in vars(self).items() if name != "mailbox"}
        box = {name: sorted(value) if isinstance(value, set) else value for name, value in vars(self.mailbox).items()}
        return repr((shown, box))


def accept(world: World) -> None:
    """The client sends a message: the command is carried out in one step."""
    name = NAMES[len(world.accepted) + len(world.unsaved) + world.refused]
    if world.mailbox.is_open:
        world.mailbox.take(name, name)
        world.unsaved.append(name)
    else:
        world.refused += 1


def save(world: World) -> None:
    """The disk has it, and the client its answer. One that has been returned meanwhile is not sent."""
    name = world.unsaved.pop(0)
    world.mailbox.accept(name)
    world.accepted.append(name)
    world.unsent.append(name)


def not_save(world: World) -> None:
    """The disk refuses it."""
    world.mailbox.drop(world.unsaved.pop(0))
    world.refused += 1


def write(world: World) -> None:
    world.to_child.append(world.unsent.pop(0))
    world.is_asking = True


def take(world: World) -> None:
    """The sub-agent reads a message."""
    name = world.to_child.pop(0)
    if world.is_working:
        world.queue.append(name)
        world.from_child.append(("queued", name))
    else:
        world.is_working = True
        world.from_child.append(("started", name))
        world.conversation.append(name)
        world.from_child.append(("has", name))


def deliver(world: World) -> None:
    name = world.queue.pop(0)
    world.conversation.append(name)
    world.from_child.append(("has", name))


def settle(world: World) -> None:
    world.is_working = False
    world.from_child.append(("settled", "complete"))


def fail(world: World) -> None:
    """It settles by a limit, with what is in its queue."""
    world.is_working, world.has_failed = False, True
    world.from_child.append(("settled", "limit"))


def die(world: World) -> None:
    world.is_gone = True


def read(world: World) -> None:
    """The parent reads a record."""
    kind, name = world.from_child.pop(0)
    match kind:
        case "settled":
            world.mailbox.settled(is_complete=name == "complete")
        case "has":
            world.mailbox.delivered(name)
        case _:
            world.mailbox.answered(name, kind)
            world.is_asking = False


def end(world: World) -> None:
    """The parent's task wakes up, and decides."""
    world.is_over = world.mailbox.close_if_over()


def lose(world: World) -> None:
    """The parent finds that the process has ended, and what it wrote was read."""
    world.mailbox.close()
    world.is_over = True


def take_back(world: World, returned: Collection[str]) -> None:
    """The parent takes what it returns out of the queue that the file has."""
    world.queue = [each for each in world.queue if each not in returned]


def continued(world: World) -> list[str]:
    """Return the conversation after another agent has continued with the file: it delivers what is queued."""
    return [*world.conversation, *world.queue]


def moves(world: World, *, may_break: bool) -> Iterator[World]:
    """Make every next state."""
    works = not world.is_gone
    possible = {
        accept: len(world.accepted) + len(world.unsaved) + world.refused < len(NAMES),
        save: bool(world.unsaved),
        not_save: bool(world.unsaved) and may_break and not world.is_over,
        write: bool(world.unsent) and not world.is_asking and not world.is_over,
        take: bool(world.to_child) and works,
        deliver: bool(world.queue) and world.is_working and works,
        settle: world.is_working and works and not world.queue,
        fail: world.is_working and works and may_break,
        die: works and may_break,
        read: bool(world.from_child),
        end: not world.is_over and not world.is_gone,
        lose: world.is_gone and not world.from_child and not world.is_over,
    }
    for move, is_possible in possible.items():
        if is_possible:
            after = copy.deepcopy(world)
            move(after)
            yield after


@pytest.mark.parametrize("may_break", [False, True])
def test_in_every_order_a_message_is_delivered_once_or_returned(may_break: bool) -> None:
    """One that does its work has all that was accepted; one that fails or dies has it, or it is returned."""
    seen: set[object] = set()
    ahead = [World()]
    ends = refusals = returns = 0
    while ahead:
        world = ahead.pop()
        if world.key() in seen:
            continue
        seen.add(world.key())
        box = world.mailbox
        assert len(world.conversation) == len(set(world.conversation))
        taken = [*world.accepted, *world.unsaved]
        assert set(taken) == set(box.texts)
        assert set(world.accepted) == set(box.states())
        after = list(moves(world, may_break=may_break))
        if not world.is_over:
            assert after, "nothing can happen, and the work is not over"
        elif not world.from_child:
            ends += 1
            refusals += bool(world.refused)
            returned = box.not_delivered(None)
            returns += bool(returned)
            assert sorted((*world.conversation, *returned)) == sorted(taken)
            assert box.not_delivered(frozenset(world.conversation)) == returned
            assert world.has_failed or world.is_gone or not (returned or world.is_working)
            take_back(world, returned)
            assert sorted((*continued(world), *returned)) == sorted(taken)
        ahead += after

    assert min(ends, refusals) > 0
    assert may_break == (returns > 0)
