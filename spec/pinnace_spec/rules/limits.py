"""Limits: those that end a run by themselves, and those of sizes and counts, each with its reason.

The names of the first are those that records and settings use (R-LIM-01, R-LIM-02). The others bound what one command,
one answer of a model or one file can cost (R-LIM-04); those that a client can run into stand in `hello`.
"""

from collections.abc import Mapping
from typing import Final, Literal, get_args

from pinnace_spec.wire.framing import MAX_RECORD_BYTES
from pinnace_spec.wire.json_text import MAX_NESTING

LimitName = Literal["maxTurns", "maxCost", "maxRunSeconds"]

LIMIT_NAMES: Final[tuple[LimitName, ...]] = get_args(LimitName)

MAX_QUEUED_MESSAGES: Final = 1_000
"""Messages in both queues together. `queue_update` repeats all of them whenever one is added or taken, so what is
written grows with the square of their number: 639 MB for 12,000 short ones, 5 MB for 1,000. People queue a handful, and
programs that queue a list of tasks tens."""

MAX_CONTENT_BLOCKS: Final = 500
"""Texts, thoughts and calls in one answer. In the profiles whose updates hold the message so far, what is written grows
with the square of their number: 1.3 GB for 2,000 calls, 80 MB for 500. Models make some tens of calls at once at most,
and one that repeats itself any number."""

MAX_ANSWER_CHARACTERS: Final = 16 * 1024 * 1024
"""Text, thoughts and arguments in one answer. The records of its end repeat it, so a server that never stops takes
memory without limit, and an abort becomes slow: 10 s for 150 MB. A million tokens are some 4 MB."""

MAX_TOOLS_AT_ONCE: Final = 64
"""Calls of one answer that are executed at the same time; further ones wait. Each holds a task, and most a thread, a
process or some descriptors, of which systems give a process 1,024 or 256."""

MAX_EDIT_BYTES: Final = 32 * 1024 * 1024
"""The file that `edit` changes. It is held in memory several times over, as text and as lines. Sources have up to a few
MiB."""

MAX_SESSION_BYTES: Final = 1024 * 1024 * 1024
"""A session file. It is read into memory. Long sessions have tens of MiB, and those with many images hundreds."""

MAX_OUTPUT_FILE_BYTES: Final = 1024 * 1024 * 1024
"""The file that keeps the long output of one command. A build with everything logged has tens of MiB; a command that
never stops writing would fill the disk."""

MAX_SESSIONS_LISTED: Final = 200
"""Sessions of one `list_sessions`. Their files are read whole: 200 of usual size take a second or two."""

MAX_COMPLETIONS: Final = 100
"""The completions of the arguments of a command: no user reads more."""

MAX_COMPLETION_CHARS: Final = 8_000
"""The characters of each text of a completion."""

COMPLETION_S: Final = 2.0
"""How long a provider of completions of the editor's text may take, in seconds: a user has written on by then."""

MAX_SURFACE_LINES: Final = 500
"""The lines of one surface of an extension: no terminal shows as many at once, and an endless loop makes more."""

MAX_SURFACE_LINE_CHARS: Final = 8_000
"""One line of a surface, with its colours: a terminal of 300 cells in which each cell has a colour of its own."""

MAX_WORKING_FRAMES: Final = 100
"""The frames of a working indicator of an extension."""

MAX_ITEM_SURFACES: Final = 500
"""The items of the conversation that are drawn by extensions at the same time: no terminal shows as many."""

RENDER_S: Final = 2.0
"""How long the renderer of an item may take, in seconds; the client has drawn it plainly meanwhile."""

MAX_FIRST_MESSAGE_CHARS: Final = 1_000
"""The first message of a session in a list: a title for people, where the message may be a whole log."""

MAX_BUFFER_BYTES: Final = 256 * 1024 * 1024
"""Kept of each output of a program that an extension runs, as in pi; the rest is read and dropped."""

PUBLISHED: Final[Mapping[str, int]] = {
    "recordBytes": MAX_RECORD_BYTES,
    "nesting": MAX_NESTING,
    "queuedMessages": MAX_QUEUED_MESSAGES,
    "contentBlocks": MAX_CONTENT_BLOCKS,
    "toolsAtOnce": MAX_TOOLS_AT_ONCE,
    "editBytes": MAX_EDIT_BYTES,
    "sessionBytes": MAX_SESSION_BYTES,
    "outputFileBytes": MAX_OUTPUT_FILE_BYTES,
}
"""Those that a client can run into: `limits` of `hello`."""
