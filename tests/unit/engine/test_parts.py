"""Where a state is cut: at the same places for every state, and nowhere short."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from localdecide.engine.parts import SHORTEST, Parts

PARTS = st.builds(Parts, st.integers(SHORTEST, 300), st.integers(0, SHORTEST), st.integers(0, 3000))


def sizes(ends: list[int]) -> list[int]:
    return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]


def test_parts_of_one_size() -> None:
    """Every step, and the rest."""
    assert [[100], [100, 200], [100, 201], [100, 249], [100, 200, 250]] == [
        Parts(100, 50).ends(length) for length in (100, 200, 201, 249, 250)
    ]


def test_parts_are_half_as_long_where_a_token_takes_twice_the_time() -> None:
    """And a quarter at four times, but never under 64 tokens."""
    found = sizes(Parts(256, 64, 1000).ends(6000))

    assert [256] * 4 + [128] * 16 + [64] * 30 == found[:50]
    assert {64} == set(found[50:-1])


@given(PARTS, st.integers(1, 9000))
def test_no_part_is_too_short_or_too_long(parts: Parts, length: int) -> None:
    """Ends ascend to the length; the last part may be longer than its step by less than `least`."""
    found = sizes(parts.ends(length))

    assert length == sum(found)
    assert all(SHORTEST <= size <= parts.step for size in found[:-1])
    assert 0 < found[-1] <= parts.step + max(0, parts.least - 1)
    assert len(found) == 1 or found[-1] >= parts.least


@given(PARTS, st.integers(1, 5000), st.integers(1, 5000))
def test_a_longer_text_passes_the_same_places(parts: Parts, length: int, more: int) -> None:
    """All but the last two ends of a text are ends of every longer one."""
    assert set(parts.ends(length)[:-2]) <= set(parts.ends(length + more))
