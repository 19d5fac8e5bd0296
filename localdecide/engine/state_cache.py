"""Decoded states kept as bytes in memory, least recently used out, within a budget.

What is kept is what a cold run computes at the same cut, so a hit changes no bit of an answer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from localdecide.engine.parts import Parts


class StateCache:
    """Snapshots by their tokens. budget: bytes; parts: of every state; another one may resume where one
    of them ends.

    cuttable: tokens up to which a restored sequence may be cut back to such a place; a longer one is used as
    it is. 0 for a recurrent state, a window's size where layers see no more: the rest is not in a snapshot.
    """

    def __init__(self, budget: int, parts: Parts, *, cuttable: int) -> None:
        self.budget, self._parts, self._cuttable = budget, parts, cuttable
        self.size = 0
        self._entries: OrderedDict[tuple[int, ...], NDArray[np.uint8]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, tokens: Sequence[int]) -> tuple[int, NDArray[np.uint8]] | None:
        """The longest usable start of `tokens`: its length and the snapshot that holds it.

        A length below the snapshot's own means: restore, then cut back to that length.
        """
        wanted = tuple(tokens)
        if (exact := self._entries.get(wanted)) is not None:
            self._entries.move_to_end(wanted)
            return len(wanted), exact
        best: tuple[int, tuple[int, ...]] | None = None
        for kept in self._entries:
            usable = self.usable(kept, wanted)
            if usable and (best is None or usable > best[0]):
                best = usable, kept
        if best is None:
            return None
        self._entries.move_to_end(best[1])
        return best[0], self._entries[best[1]]

    def usable(self, kept: tuple[int, ...], wanted: tuple[int, ...]) -> int:
        """Tokens of `kept` that a cold run of `wanted` would have computed in the same decode calls."""
        if kept == wanted:
            return len(kept)
        common = _common(kept, wanted)
        if not self.cuts(len(kept)):
            return common if common == len(kept) and common in self._parts.ends(len(wanted)) else 0
        same = set(self._parts.ends(len(kept))).intersection(self._parts.ends(len(wanted)))
        return max((end for end in same if end <= common), default=0)

    def cuts(self, length: int) -> bool:
        """Whether a state of `length` tokens can be cut back."""
        return length <= self._cuttable

    def put(self, tokens: Sequence[int], snapshot: NDArray[np.uint8]) -> None:
        """Keep a snapshot if it fits the budget at all."""
        key = tuple(tokens)
        if snapshot.nbytes > self.budget or key in self._entries:
            return
        self._entries[key] = snapshot
        self.size += snapshot.nbytes
        while self.size > self.budget:
            _, old = self._entries.popitem(last=False)
            self.size -= old.nbytes


def _common(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    limit = min(len(a), len(b))
    if a[:limit] == b[:limit]:
        return limit
    low, high = 0, limit
    while high - low > 1:
        middle = (low + high) // 2
        if a[:middle] == b[:middle]:
            low = middle
        else:
            high = middle
    return low
