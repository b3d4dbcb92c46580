"""A session's tree as JSON, however long its branches are.

Pure. The tree nests two levels for each entry of a branch: encoders that call themselves for each level give up within
a few hundred entries, and so did the programs that this format comes from. Readers with a loop read it.
"""

from collections.abc import Iterator, Sequence
from typing import Final

import orjson

from pinnace_agent.session.tree import TreeNode
from pinnace_spec.wire import encode_record

_NODE_END: Final = b"]}"


# DEVIATION D-24: no branch is too long.
def encode_nodes(roots: Sequence[TreeNode]) -> orjson.Fragment:
    """Encode what `EntryTree.nodes` gave, as a value of a record. Linear; not recursive."""
    pieces = [b"["]
    left: list[Iterator[TreeNode]] = [iter(roots)]
    is_first = True
    while left:
        node = next(left[-1], None)
        if node is None:
            left.pop()
            is_first = False
            if left:
                pieces.append(_NODE_END)
            continue
        pieces.append(_opening(node) if is_first else b"," + _opening(node))
        left.append(iter(node["children"]))
        is_first = True
    pieces.append(b"]")
    return orjson.Fragment(b"".join(pieces))


def _opening(node: TreeNode) -> bytes:
    """Encode a node up to where its children begin."""
    bare = {key: value for key, value in node.items() if key != "children"}
    return encode_record(bare)[: -len(b"}\n")] + b',"children":['
