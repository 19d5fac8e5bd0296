"""Where the decode calls of a text end: at places that follow from the number of tokens before them alone.

So a longer text passes the same places, and what was computed up to one of them can be used again, bit
for bit. Between two calls another request may go in: parts get shorter where each token takes longer.
"""

from __future__ import annotations

from dataclasses import dataclass

SHORTEST = 64


@dataclass(frozen=True, slots=True)
class Parts:
    """step: tokens of a part. least: of the last one, where there are several; at most `SHORTEST`.

    doubling: tokens behind which a token takes twice the time; parts are half as long from there on, a
    quarter from where it takes four times, but not under `SHORTEST`. 0 leaves them alike.
    """

    step: int
    least: int = 0
    doubling: int = 0

    def ends(self, length: int) -> list[int]:
        """Where the parts of a text of `length` tokens end, the last one at `length`.

        A last part of fewer than `least` tokens is read with the one before it.
        """
        ends = [0]
        while ends[-1] + self._size(ends[-1]) < length:
            ends.append(ends[-1] + self._size(ends[-1]))
        if len(ends) > 1 and length - ends[-1] < self.least:
            del ends[-1]
        return [*ends[1:], length]

    def _size(self, begin: int) -> int:
        if not self.doubling:
            return self.step
        halvings = (1 + begin // self.doubling).bit_length() - 1
        return max(self.step >> halvings, min(self.step, SHORTEST))
