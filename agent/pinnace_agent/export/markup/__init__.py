"""Text of a session as HTML: prose, program text, terminal colours, images.

`parts` imports the other modules, and `figures` of `export`; these import nothing of the page.
"""
