"""How plans are cut: shared text once, exact questions alone, limits kept."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localdecide.core.plan import Labels, Prompt
from localdecide.engine.schedule import WAVE_TOKENS, Group, schedule

STATE = tuple(range(100, 120))


def prompt(question: str, own: Sequence[int], reads: Sequence[int] | None = None) -> Prompt:
    tokens = STATE + tuple(own)
    positions = [len(tokens) - 1] if reads is None else [len(STATE) + read for read in reads]
    return Prompt(question, tokens, tuple(Labels(position, (1,)) for position in positions), len(STATE))


def decoded(groups: list[Group]) -> int:
    """Tokens that a schedule decodes."""
    total = 0
    for group in groups:
        total += len(group.prefix)
        for spine in group.spines:
            alone = spine.waves[0].start == spine.end
            total += (spine.end - spine.begin if alone else 0) + sum(len(wave.tree.tokens) for wave in spine.waves)
    return total


def test_every_shared_text_is_decoded_once() -> None:
    """State, common words, and what two of three prompts share occur once each."""
    prompts = [prompt("a", [1, 2, 3, 4, 5, 6]), prompt("b", [1, 2, 3, 4, 5, 7]), prompt("c", [1, 2, 3, 4, 8])]
    groups = schedule(prompts, exact=False, sequences=8, tree=True)

    assert len(STATE) + 8 == decoded(groups)
    assert 1 == len(groups[0].spines[0].waves)


def many(common: int, own: int, count: int = 30) -> list[Prompt]:
    """Prompts that begin with `common` tokens and end each in `own` tokens of its own, in no order."""
    texts = [[*range(common), 1000 + index * 7 % count, *range(own - 1)] for index in range(count)]
    return [prompt(str(index), text) for index, text in enumerate(texts)]


def test_a_short_spine_is_the_trunk_of_the_first_wave() -> None:
    """It needs no call of its own; later waves stand on it, and all of it is decoded once."""
    groups = schedule(many(24, 16), exact=False, sequences=64, tree=True)
    spine = groups[0].spines[0]

    assert (20, 44) == (spine.begin, spine.end)
    assert [(20, 24), (44, 0)] == [(wave.start, wave.trunk) for wave in spine.waves]
    assert tuple(range(24)) == tuple(spine.waves[0].tree.tokens[:24])
    assert len(STATE) + 24 + 30 * 16 == decoded(groups)


def test_a_long_spine_is_decoded_before_its_waves() -> None:
    """A wave that was mostly trunk would have few branches."""
    groups = schedule(many(200, 16), exact=False, sequences=64, tree=True)
    spine = groups[0].spines[0]

    assert [(220, 0)] * 2 == [(wave.start, wave.trunk) for wave in spine.waves]
    assert len(STATE) + 200 + 30 * 16 == decoded(groups)


def test_waves_are_of_about_one_size() -> None:
    """No short wave is left at the end: the kernels are slowest on those."""
    waves = schedule(many(0, 20, 27), exact=False, sequences=64, tree=True)[0].spines[0].waves

    assert [180, 180, 180] == [len(wave.tree.tokens) for wave in waves]


def test_prompts_that_share_text_share_a_wave() -> None:
    """Of 40 prompts that begin in four ways, none of the four is decoded twice, whatever order they came in."""
    prompts = [prompt(str(index), [index % 4, *range(10), 100 + index, 9, 9]) for index in range(40)]

    assert len(STATE) + 4 * 11 + 40 * 3 == decoded(schedule(prompts, exact=False, sequences=64, tree=True))


def test_exact_questions_are_cut_alone() -> None:
    """A question's part of the schedule is the same whatever travels with it."""
    prompts = [prompt("a", [1, 2, 3, 4, 5]), prompt("b", [1, 2, 3, 4, 6]), prompt("a", [1, 2, 3, 4, 7])]
    together = schedule(prompts, exact=True, sequences=8, tree=True)[0].spines
    alone = schedule([prompts[0], prompts[2]], exact=True, sequences=8, tree=True)[0].spines

    assert together[0].waves[0].tree.tokens == alone[0].waves[0].tree.tokens
    assert (together[0].begin, together[0].end) == (alone[0].begin, alone[0].end)
    assert [(0, 2), (1,)] == [spine.waves[0].prompts for spine in together]


def test_a_spine_ends_before_the_first_read() -> None:
    """What is read is decoded in a wave, where rows are kept."""
    same = [1, 2, 3, 4, 5]
    prompts = [prompt(str(index), [*same, 10 + index, *range(150)], [4 + index, 155]) for index in range(2)]

    assert schedule(prompts, exact=False, sequences=8, tree=True)[0].spines[0].end == len(STATE) + 4


def test_prompts_of_another_state_are_another_group() -> None:
    """Groups follow the first prompt of each state."""
    other = Prompt("b", (7, 8, 9), (Labels(2, (1,)),), 2)

    groups = schedule([prompt("a", [1]), other, prompt("c", [2])], exact=False, sequences=8, tree=True)

    assert [STATE, (7, 8)] == [group.prefix for group in groups]


@given(
    st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=200), min_size=1, max_size=30),
    st.booleans(),
    st.booleans(),
    st.integers(1, 9),
)
def test_every_prompt_is_decoded_whole_within_limits(
    owns: list[list[int]], exact: bool, tree: bool, sequences: int
) -> None:
    """Spine and branch spell out each prompt; waves keep to sequences and tokens."""
    prompts = [prompt(str(index % 7), own) for index, own in enumerate(owns)]
    seen = []
    for group in schedule(prompts, exact=exact, sequences=sequences, tree=tree):
        for spine in group.spines:
            for wave in spine.waves:
                assert len(wave.prompts) <= sequences
                longest = max(len(prompts[index].tokens) - wave.start for index in wave.prompts)
                assert len(wave.tree.tokens) <= WAVE_TOKENS + longest
                assert all(len(slots) >= wave.trunk for slots in wave.tree.slots)
                assert wave.start + wave.trunk in (wave.start, spine.end)
                for branch, index in enumerate(wave.prompts):
                    slots = wave.tree.slots[branch]
                    own = tuple(wave.tree.tokens[slot] for slot in slots)
                    assert prompts[index].tokens[wave.start :] == own
                    assert [wave.tree.depths[slot] for slot in slots] == list(range(len(own)))
                    assert all(branch in wave.tree.branches[slot] for slot in slots)
                    assert slots == sorted(slots)
                    seen.append(index)

    assert list(range(len(prompts))) == sorted(seen)


@pytest.mark.parametrize("tree", [True, False])
def test_branches_of_one_question_share_its_text(tree: bool) -> None:
    """Many continuations of one long question decode its text once, trees or not."""
    prompts = [prompt("a", [*range(50), 60 + index], [49, 50]) for index in range(20)]

    waves = 20 // 6 + 1 if not tree else 1
    assert decoded(schedule(prompts, exact=False, sequences=64 if tree else 6, tree=tree)) <= 20 + 49 + 20 * 2 + waves
