"""How a plan is cut into decode calls: pure, a function of the plan and `exact` alone.

Prompts that begin with the same state form a group. A group's state is decoded once, in `Parts`;
the text all its prompts share next is decoded once on top of it (the spine), and then
waves of branches, each a tree in which text that some prompts share occurs once. A short spine needs
no decode of its own: it is the trunk of the first wave's tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from localdecide.core.plan import Labels, Prompt

WAVE_TOKENS = 256
MIN_SPINE = 4


class Tree:
    """The tokens of a wave, shared ones once, parents before children.

    depths[i]: tokens before token i on its branch. branches[i]: the branches token i belongs to.
    slots[b][d]: index of branch b's token at depth d.
    """

    def __init__(self, *, share: bool) -> None:
        self.tokens: list[int] = []
        self.depths: list[int] = []
        self.branches: list[list[int]] = []
        self.slots: list[list[int]] = []
        self._share = share
        self._children: dict[tuple[int, int], int] = {}

    def missing(self, tokens: Sequence[int]) -> int:
        """How many of a branch's tokens are not in the tree yet."""
        return len(tokens) - (len(self._known(tokens)) if self._share else 0)

    def add(self, tokens: Sequence[int]) -> None:
        """A new branch."""
        branch = len(self.slots)
        slots = self._known(tokens) if self._share else []
        for slot in slots:
            self.branches[slot].append(branch)
        for depth in range(len(slots), len(tokens)):
            slot = len(self.tokens)
            self._children[slots[-1] if slots else -1, tokens[depth]] = slot
            self.tokens.append(tokens[depth])
            self.depths.append(depth)
            self.branches.append([branch])
            slots.append(slot)
        self.slots.append(slots)

    def _known(self, tokens: Sequence[int]) -> list[int]:
        slots: list[int] = []
        node = -1
        for token in tokens:
            found = self._children.get((node, token))
            if found is None:
                break
            slots.append(found)
            node = found
        return slots


@dataclass(frozen=True, slots=True)
class Wave:
    """Prompts decoded together. start: position of the first token of each branch.

    trunk: how many of the tree's first tokens are the spine, which later waves stand on.
    """

    prompts: tuple[int, ...]
    start: int
    tree: Tree
    trunk: int = 0


@dataclass(frozen=True, slots=True)
class Spine:
    """Text that several prompts share beyond the state: tokens [begin, end) of prompt `waves[0].prompts[0]`.

    It is decoded before the waves, or as the trunk of the first one.
    """

    begin: int
    end: int
    waves: tuple[Wave, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """Prompts on one state. prefix: the state's tokens."""

    prefix: tuple[int, ...]
    spines: tuple[Spine, ...]


def schedule(prompts: Sequence[Prompt], *, exact: bool, sequences: int, tree: bool) -> list[Group]:
    """Groups in the order of their first prompt.

    exact: every question gets spines and waves of its own. sequences: branches a wave may have.
    tree: whether one token may belong to several branches (attention), or each branch holds its own
    copy of all its tokens (recurrent state); then text inside a question is shared by its spine.
    """
    by_prefix: dict[tuple[int, ...], list[int]] = {}
    for index, prompt in enumerate(prompts):
        by_prefix.setdefault(prompt.tokens[: prompt.shared], []).append(index)
    groups = []
    for prefix, members in by_prefix.items():
        if exact or not tree:
            parts = _by_question(prompts, members)
            if not exact and not tree:
                parts = _merge_single(parts)
        else:
            parts = [members]
        groups.append(Group(prefix, tuple(_spine(prompts, part, len(prefix), sequences, tree) for part in parts)))
    return groups


def _by_question(prompts: Sequence[Prompt], members: list[int]) -> list[list[int]]:
    questions: dict[str, list[int]] = {}
    for index in members:
        questions.setdefault(prompts[index].question, []).append(index)
    return list(questions.values())


def _merge_single(parts: list[list[int]]) -> list[list[int]]:
    """Questions of one prompt each travel together; a question with many prompts keeps its own spine."""
    merged = [part for part in parts if len(part) > 1]
    singles = [part[0] for part in parts if len(part) == 1]
    return [*merged, singles] if singles else merged


def _spine(prompts: Sequence[Prompt], members: list[int], start: int, sequences: int, tree: bool) -> Spine:
    end = min(_first_read(prompts, members), _common(prompts, members, start))
    if len(members) == 1 or end - start < MIN_SPINE:
        end = start
    if not tree:
        return Spine(start, end, tuple(_copies(prompts, members, end, sequences)))
    # Neighbours share the most: what two waves both need is then least.
    members = sorted(members, key=lambda index: prompts[index].tokens[start:])
    apart = end - start > WAVE_TOKENS // 2 and _distinct(prompts, members, start) > WAVE_TOKENS
    waves = _waves(prompts, members, end if apart else start, end, sequences)
    return Spine(start, end if len(waves) > 1 or apart else start, tuple(waves))


def _first_read(prompts: Sequence[Prompt], members: list[int]) -> int:
    return min(first_read(prompts[index]) for index in members)


def first_read(prompt: Prompt) -> int:
    """The first position of a prompt that is read."""
    return min(read.position if isinstance(read, Labels) else min(read.positions) for read in prompt.reads)


def _common(prompts: Sequence[Prompt], members: list[int], start: int) -> int:
    first = prompts[members[0]].tokens
    end = min(len(prompts[index].tokens) for index in members)
    for index in members[1:]:
        tokens = prompts[index].tokens
        if tokens[start:end] == first[start:end]:
            continue
        position = start
        while position < end and tokens[position] == first[position]:
            position += 1
        end = position
    return end


def _distinct(prompts: Sequence[Prompt], members: Sequence[int], start: int) -> int:
    """Tokens from `start` on, shared ones once, of prompts that are sorted by them."""
    shared = sum(_common(prompts, [*pair], start) - start for pair in pairwise(members))
    return sum(len(prompts[index].tokens) - start for index in members) - shared


def _waves(prompts: Sequence[Prompt], members: list[int], start: int, end: int, sequences: int) -> list[Wave]:
    """Trees of about the same size, since a short last one would be the slowest. The first stands on `start`
    and has the spine up to `end` as its trunk, the others stand on `end`.
    """
    total = end - start + _distinct(prompts, members, end)
    count = max(-(-total // WAVE_TOKENS), -(-len(members) // sequences))
    waves: list[Wave] = []
    current: list[int] = []
    tree, used, begin = Tree(share=True), 0, start
    for index in members:
        own = prompts[index].tokens[begin:]
        new = tree.missing(own)
        full = len(current) == sequences or used + new > WAVE_TOKENS or (used >= total / count and 2 * new > len(own))
        if current and full:
            waves.append(Wave(tuple(current), begin, tree, end - begin))
            current, tree, used, begin = [], Tree(share=True), 0, end
            own = prompts[index].tokens[begin:]
            new = len(own)
        # A first branch longer than a wave still leaves room for others that share most of it.
        used += new if current else min(new, WAVE_TOKENS // 2)
        current.append(index)
        tree.add(own)
    # The last wave leaves nothing behind: no other stands on it.
    waves.append(Wave(tuple(current), begin, tree))
    return waves


def _copies(prompts: Sequence[Prompt], members: list[int], start: int, sequences: int) -> list[Wave]:
    """Waves in which every branch has all its tokens to itself."""
    waves: list[Wave] = []
    current: list[int] = []
    tree = Tree(share=False)
    for index in members:
        own = prompts[index].tokens[start:]
        if current and (len(current) == sequences or len(tree.tokens) + len(own) > WAVE_TOKENS):
            waves.append(Wave(tuple(current), start, tree))
            current, tree = [], Tree(share=False)
        current.append(index)
        tree.add(own)
    waves.append(Wave(tuple(current), start, tree))
    return waves
