"""Generations of the protocol as projections of one stream of records.

The agent writes one stream; what a client of a generation does not know is left out here and in `exact_projections`,
and nowhere else. `pi` and `1.5` have every record and field. Source: R-PRO-01 to R-PRO-03. Must not know when a record
is written.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_spec.profiles import EVENT_NAMES, ClientProfile
from pinnace_spec.wire import encode_fragment, encode_record

if TYPE_CHECKING:
    from pinnace_rpc.exact_projections import ExactProjection

Record = Mapping[str, object]


class PiProjection:
    """The seed generation complete, plus additive records and fields of later ones."""

    profile: ClientProfile = "pi"
    has_whole_updates = True
    event_names = EVENT_NAMES
    on_dialog: Callable[[str], None] | None = None

    def line(self, record: Record) -> bytes | None:
        """Encode a record."""
        return encode_record(record)

    def update_line(self, event: Record, builder: MessageBuilder) -> bytes:
        """Encode a `message_update` with the message so far, twice, encoded once."""
        message = encode_fragment(builder.snapshot())
        return encode_record(
            {
                "type": "message_update",
                "message": message,
                "usage": builder.usage,
                "assistantMessageEvent": {**event, "partial": message},
            }
        )


class DeltaProjection(PiProjection):
    """As `pi`, but updates carry the delta alone: output grows with the answer, not with its square."""

    profile: ClientProfile = "1.5"
    has_whole_updates = False

    def update_line(self, event: Record, builder: MessageBuilder) -> bytes:
        """Encode a `message_update` without the message."""
        return encode_record({"type": "message_update", "usage": builder.usage, "assistantMessageEvent": event})


def make_projection(profile: ClientProfile) -> "PiProjection | ExactProjection":
    """Return the projection for a profile."""
    match profile:
        case "pi":
            return PiProjection()
        case "1.5":
            return DeltaProjection()
        case _:
            from pinnace_rpc.exact_projections import exact_projection

            return exact_projection(profile)


class Disposition(dict[str, object]):
    """Data of a response that says nothing but what became of a text."""
