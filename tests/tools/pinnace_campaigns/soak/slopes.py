"""Whether a series of measurements grows: Sen's slope, with its interval. Pure.

The median of the slopes between all pairs of points: a few outliers, such as a garbage collection or a buffer that was
freed, do not change it. The caller leaves out the first measurements, while caches fill.
"""

import math
import statistics
from collections.abc import Sequence
from itertools import combinations
from typing import Final, NamedTuple

_NORMAL_95: Final = 1.96


class Slope(NamedTuple):
    """How much y grows when x grows by one."""

    middle: float
    lowest: float
    """Of the interval that has the true slope in 95 of 100 cases, if the points do not depend on each other."""
    highest: float


def slope(xs: Sequence[float], ys: Sequence[float]) -> Slope:
    """Estimate the slope of a series.

    Raises:
        ValueError: Fewer than three points say nothing.
    """
    count = len(xs)
    if count < 3:
        raise ValueError(f"{count} points have no slope")
    points = list(zip(xs, ys, strict=True))
    found = sorted((y2 - y1) / (x2 - x1) for (x1, y1), (x2, y2) in combinations(points, 2) if x1 != x2)
    spread = _NORMAL_95 * math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    first = max(0, math.floor((len(found) - spread) / 2))
    last = min(len(found) - 1, math.ceil((len(found) + spread) / 2))
    return Slope(statistics.median(found), found[first], found[last])
