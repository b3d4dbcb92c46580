"""Extensions in Python. Imports point from hooks and runtime down to events, registration and ports.

From the top: `hooks` (the engine's jobs), `runtime` (one session instance), `providers`, `loading` and `builtin`,
`handlers` (calling handlers), `api` (what authors import), `services`, `ports`, `registration`, `events`.
"""
