"""Heights of many rows, and their sums: finding the row at a line and changing one cost the logarithm of the count."""


class Heights:
    """A list of heights (a Fenwick tree)."""

    def __init__(self) -> None:
        """Begin empty."""
        self._heights: list[int] = []
        self._sums: list[int] = [0]
        self.total = 0

    def __len__(self) -> int:
        return len(self._heights)

    def __getitem__(self, row: int) -> int:
        return self._heights[row]

    def reset(self, heights: list[int]) -> None:
        """Replace all."""
        self._heights = heights
        self.total = sum(heights)
        sums = [0, *heights]
        for place in range(1, len(sums)):
            above = place + (place & -place)
            if above < len(sums):
                sums[above] += sums[place]
        self._sums = sums

    def append(self, height: int) -> None:
        """Add a row at the end."""
        self._heights.append(height)
        self.total += height
        place = len(self._heights)
        value, below, end = height, place - 1, place - (place & -place)
        while below > end:
            value += self._sums[below]
            below -= below & -below
        self._sums.append(value)

    def insert(self, row: int, height: int) -> None:
        """Add a row before another; costs the count of rows."""
        if row == len(self._heights):
            self.append(height)
        else:
            self.reset([*self._heights[:row], height, *self._heights[row:]])

    def set(self, row: int, height: int) -> int:
        """Change a height; return by how much."""
        change = height - self._heights[row]
        if change:
            self._heights[row] = height
            self.total += change
            place = row + 1
            while place < len(self._sums):
                self._sums[place] += change
                place += place & -place
        return change

    def top(self, row: int) -> int:
        """Return the line at which a row begins."""
        total = 0
        while row > 0:
            total += self._sums[row]
            row -= row & -row
        return total

    def find(self, line: int) -> tuple[int, int]:
        """Return the row at a line, and which of its lines that is; past the end it is the row after the last."""
        row, rest = 0, line
        step = 1 << len(self._heights).bit_length()
        while step:
            if row + step < len(self._sums) and self._sums[row + step] <= rest:
                row += step
                rest -= self._sums[row]
            step >>= 1
        return row, rest
