"""The state cache: longest usable start, budget, least recently used out."""

from __future__ import annotations

import numpy as np

from localdecide.engine.parts import Parts
from localdecide.engine.state_cache import StateCache


def snapshot(size: int = 10) -> np.ndarray:
    return np.zeros(size, dtype=np.uint8)


def test_the_longest_cut_that_a_cold_run_would_make() -> None:
    """A longer state resumes at a multiple of the step inside what both share."""
    cache = StateCache(1000, Parts(4), cuttable=1000)
    cache.put(range(10), snapshot())

    assert [8, 4, 10, None, None] == [
        found and found[0]
        for found in map(cache.find, (range(12), [*range(7), 99], range(10), [*range(3), 99], [1, 2, 3, 4, 5]))
    ]


def test_a_state_whose_last_part_was_longer_resumes_before_it() -> None:
    """A short rest is read with the part before it, so that place was never passed."""
    cache = StateCache(1000, Parts(4, 2), cuttable=1000)
    cache.put(range(9), snapshot())

    assert [4, 4, 9] == [found and found[0] for found in map(cache.find, (range(20), range(8), range(9)))]


def test_recurrent_states_resume_only_where_they_end() -> None:
    """Without cutting, a snapshot serves its own state, and longer ones if it ends at a cut."""
    cache = StateCache(1000, Parts(4), cuttable=0)
    cache.put(range(8), snapshot())
    cache.put(range(10), snapshot())

    assert [8, 10, 8, None] == [
        found and found[0] for found in map(cache.find, (range(9), range(10), range(20), range(7)))
    ]


def test_windows_are_cut_while_they_show_everything() -> None:
    """Up to the window's size a state is cut like any other; a longer one is used as it is."""
    cache = StateCache(1000, Parts(4), cuttable=10)
    cache.put(range(10), snapshot())
    cache.put(range(100, 112), snapshot())

    assert [8, None, 12] == [
        found and found[0] for found in map(cache.find, (range(9), range(100, 109), range(100, 130)))
    ]


def test_least_recently_used_goes_first() -> None:
    """The budget holds; what was used last stays."""
    cache = StateCache(25, Parts(4), cuttable=1000)
    cache.put([1], snapshot())
    cache.put([2], snapshot())
    cache.find([1])
    cache.put([3], snapshot())
    cache.put([4] * 9, snapshot(26))

    assert (20, True, False, True, False) == (
        cache.size,
        *(cache.find(tokens) is not None for tokens in ([1], [2], [3], [4] * 9)),
    )
