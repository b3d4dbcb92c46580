"""A session as a page for people, or as a file of its own: reads sessions, writes copies, changes nothing else.

Imports point from `exporting` to `page`, `transcript`, `trajectory` and `source`, from `page` to `entries` and
`messages`, and from there to `markup`.
"""
