"""What one server may cost: nothing of it may block, flood or fill the agent."""

from typing import Final

MESSAGE_BYTES: Final = 16 * 1024 * 1024
"""The longest message of a server; a longer one ends the connection."""
UNSENT_BYTES: Final = 32 * 1024 * 1024
"""What waits for a server that does not read; more ends the connection."""
NOTIFICATIONS_PER_S: Final = 2_000
"""While no call is open; a server that sends more is read no faster."""
NOTIFICATION_BYTES_PER_S: Final = 4 * 1024 * 1024
FLOOD_S: Final = 30.0
"""How long a server may go on at that rate before its connection is ended."""
INVALID_LINES: Final = 1_000
"""In a row; more end the connection."""
OPEN_REQUESTS: Final = 32
"""Of the server to this agent; more are refused."""
TOOLS: Final = 1_000
PROMPTS: Final = 1_000
NAME_CHARS: Final = 200
"""Of a tool or a prompt."""
ARGUMENTS: Final = 100
"""Of a prompt."""
LISTED: Final = 20_000
"""Items of a list in all its pages."""
LISTED_BYTES: Final = 32 * 1024 * 1024
"""Of these, as JSON."""
BLOCKS: Final = 1_000
"""Of a result or a resource."""
FORM_FIELDS: Final = 50
PAGES: Final = 100
TOOL_BYTES: Final = 64 * 1024
"""Of one tool's definition."""
DEFINITION_BYTES: Final = 1024 * 1024
"""Of all tools of one server."""
STDERR_BYTES: Final = 64 * 1024
"""Of the end of a server's stderr that are kept."""
STDERR_SHOWN: Final = 2_000
"""Characters of it that an error shows."""
CONNECT_S: Final = 60.0
"""For connecting, the handshake and the first list of tools together."""
ONE_WAY_S: Final = 2.0
"""For a message over HTTP that has no answer."""
DELETE_S: Final = 1.0
"""For the request that ends a session over HTTP."""
