"""Generations of the protocol as projections of one stream of records.

The agent writes one stream; records and fields that a generation does not have are left out here and in
`exact_projections`, and nowhere else. `pi` and `1.5` have every record and field. Source: R-PRO-01 to R-PRO-03. Must
not know when a record is written.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from pinnace_agent.llm.builder import MessageBuilder
from pinnace_spec.profiles.profiles import EVENT_NAMES, ClientProfile
from pinnace_spec.wire.json_text import encode_fragment, encode_record

if TYPE_CHECKING:
    from pinnace_rpc.server.exact_projections import ExactProjection

Record = Mapping[str, object]


class PiProjection:
    """The seed generation complete, plus additive records and fields of later ones."""

    profile: ClientProfile = "pi"
    has_whole_updates = True
    event_names = EVENT_NAMES
    unknown_names: frozenset[str] = frozenset()
    """Commands that the generation does not have, refused as unknown, and fields that it does not have, ignored."""

    def line(self, record: Record) -> bytes | None:
        """Encode a record."""
        return encode_record(record)

    def update_line(self, event: Record, builder: MessageBuilder) -> bytes:
        """Encode a `message_update` with the message so far, twice, encoded once."""
        message = encode_fragment(builder.snapshot())
        return encode_record(
            {
                "type": "message_update",
                "entryId": builder.entry_id,
                "message": message,
                "usage": builder.usage,
                "assistantMessageEvent": {**event, "partial": message},
            }
        )


class DeltaProjection(PiProjection):
    """As `pi`, but updates carry the delta alone: output grows with the answer, not with its square."""

    profile: ClientProfile = "1.5"
    has_whole_updates = False

    def line(self, record: Record) -> bytes | None:
        """Encode a record. The counts of a session are those of all of it, as in the releases of this generation."""
        if record.get("command") == "get_session_stats" and record.get("success"):
            data = cast("Mapping[str, Record]", record["data"])  # cast: the data is ours
            record = {**record, "data": {**data, **data["session"]}}
        return super().line(record)

    def update_line(self, event: Record, builder: MessageBuilder) -> bytes:
        """Encode a `message_update` without the message."""
        return encode_record(
            {
                "type": "message_update",
                "entryId": builder.entry_id,
                "usage": builder.usage,
                "assistantMessageEvent": event,
            }
        )


def make_projection(profile: ClientProfile) -> "PiProjection | ExactProjection":
    """Return the projection for a profile."""
    match profile:
        case "pi":
            return PiProjection()
        case "1.5":
            return DeltaProjection()
        case _:
            from pinnace_rpc.server.exact_projections import exact_projection

            return exact_projection(profile)


class Disposition(dict[str, object]):
    """Data of a response that has only the disposition of a message."""
