"""One evaluation: a plan's decode calls in order, and what is read after each.

It is a generator: it yields `Decode`s, is sent the `Outputs` of each, and touches only the sequences of
its `Lane`. So one thread can run an evaluation alone, or several side by side in the same decode calls.
The calls are a function of the plan and `exact` alone: the same plan gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from localdecide.core.errors import Cancelled, ModelFailed
from localdecide.core.plan import Hidden, Labels, Plan, Prompt, Row, Rows
from localdecide.engine.base import Work, nothing
from localdecide.engine.context import Context
from localdecide.engine.parts import Parts
from localdecide.engine.schedule import Group, Spine, Wave, schedule
from localdecide.engine.state_cache import StateCache


@dataclass(frozen=True, slots=True)
class Decode:
    """Arguments of `Context.decode`; outputs index `tokens`."""

    tokens: Sequence[int]
    positions: Sequence[int]
    sequences: Sequence[tuple[int, ...]]
    outputs: Sequence[int]


@dataclass(frozen=True, slots=True)
class Outputs:
    """What a decode call left for one of the evaluations in it. first: where its tokens begin in the batch.

    rows: hidden rows of its outputs, float32 [outputs, width], where the context gives them.
    """

    first: int = 0
    rows: NDArray[np.float32] | None = None


Evaluation = Generator[Decode, Outputs, Rows]


@dataclass(slots=True)
class Lane:
    """Sequences of one evaluation at a time: `first` holds a state, the next one a spine, the rest branches.

    sole: whether the context has no other lane. resident: the state that `first` holds now; empty for none.
    """

    first: int
    branches: int
    sole: bool
    resident: tuple[int, ...] = ()

    @property
    def state(self) -> int:
        return self.first

    @property
    def spine(self) -> int:
        return self.first + 1

    def branch(self, number: int) -> int:
        return self.first + 2 + number

    def clear(self, context: Context) -> None:
        """Forget everything of this lane, and nothing of others."""
        if self.sole:
            context.clear()
        else:
            for sequence in range(self.first, self.branch(self.branches)):
                context.drop(sequence)
        self.resident = ()


@dataclass(frozen=True, slots=True)
class Method:
    """How an engine evaluates. parts: of a state; ubatch: rows of one decode call at most.

    hybrid: whether there is a recurrent state, which cannot be cut. windowed: whether layers see the last
    tokens only. whole: whether a prompt is read in one piece, both ways. alone: one branch at a time.
    """

    parts: Parts
    ubatch: int
    hybrid: bool = False
    windowed: bool = False
    whole: bool = False
    alone: bool = False


class Run:
    """Progress of one evaluation on a lane of a context.

    cancelled and interrupt: see `engine.base.Engine.evaluate`.
    """

    def __init__(
        self,
        plan: Plan,
        context: Context,
        lane: Lane,
        cache: StateCache,
        method: Method,
        cancelled: Callable[[], bool],
        interrupt: Callable[[], Work | None],
    ) -> None:
        self._plan, self._context, self._lane, self._cache, self._method = plan, context, lane, cache, method
        self._cancelled, self._interrupt = cancelled, interrupt
        self._values: list[list[Row]] = [[None] * len(prompt.reads) for prompt in plan.prompts]
        self._hidden: dict[tuple[int, int], Any] = {}
        self._decoded = self._cached = 0

    def evaluation(self, *, exact: bool) -> Evaluation:
        """All decode calls, and at the end all reads. Raises Cancelled between two calls."""
        prompts, method = self._plan.prompts, self._method
        if method.whole:
            for index in range(len(prompts)):
                yield from self._read_whole(index)
        else:
            branches = 1 if method.alone else self._lane.branches
            for group in schedule(prompts, exact=exact, sequences=branches, tree=not method.hybrid):
                yield from self._read_group(group)
        return Rows(self._values, self._decoded, self._cached)

    def _decode(
        self,
        tokens: Sequence[int],
        positions: Sequence[int],
        sequences: Sequence[tuple[int, ...]],
        outputs: Sequence[int] = (),
    ) -> Generator[Decode, Outputs, Outputs]:
        if self._cancelled():
            raise Cancelled("request canceled")
        self._decoded += len(tokens)
        return (yield Decode(tokens, positions, sequences, outputs))

    def _plain(self, tokens: Sequence[int], start: int, sequence: int) -> Generator[Decode, Outputs, Outputs]:
        """Tokens of one sequence that are not read."""
        count = len(tokens)
        return (yield from self._decode(tokens, range(start, start + count), [(sequence,)] * count))

    def _read_whole(self, index: int) -> Generator[Decode, Outputs, None]:
        """A bidirectional prompt: all of it in one decode."""
        prompt = self._plan.prompts[index]
        count = len(prompt.tokens)
        positions = list(range(count)) if self._context.rows == "encoder" else _positions(prompt)
        self._lane.clear(self._context)
        got = yield from self._decode(prompt.tokens, range(count), [(self._lane.state,)] * count, positions)
        for row, position in enumerate(positions):
            self._take(got, row, [(index, position)], position)
        self._finish(index)
        self._lane.clear(self._context)

    def _read_group(self, group: Group) -> Generator[Decode, Outputs, None]:
        lane = self._lane
        yield from self._read_state(group.prefix)
        for spine in group.spines:
            base = lane.state
            if spine.end > spine.begin:
                if spine.begin:
                    self._context.copy(lane.state, lane.spine)
                if spine.waves[0].start == spine.end:
                    yield from self._read_spine(spine)
                    base = lane.spine
            for wave in spine.waves:
                yield from self._read_wave(wave, base)
                if wave.trunk:
                    base = lane.spine
            if spine.end > spine.begin:
                self._context.drop(lane.spine)

    def _read_state(self, prefix: tuple[int, ...]) -> Generator[Decode, Outputs, None]:
        """The state in the lane's first sequence: what is there or kept as far as it goes, else decoded."""
        context, lane, method = self._context, self._lane, self._method
        done = self._find_state(prefix)
        self._cached += done
        if done == len(prefix):
            return
        ends = method.parts.ends(len(prefix))
        for end in ends:
            if end <= done:
                continue
            yield from self._plain(prefix[done:end], done, lane.state)
            done = end
            lane.resident = prefix[:done]  # now: work that interrupts looks for its own state here
            work = self._interrupt() if done < len(prefix) else None
            # A snapshot leaves out what no window shows any more. Only a state that went through one after
            # every part lies as one that was brought back does: what lies elsewhere adds up to other bits.
            if work is not None or (method.windowed and lane.sole):
                self._set_aside(work or nothing)
            if self._cache.budget and not self._cache.cuts(len(prefix)) and ends[-2:-1] == [done]:
                # What cannot be cut back to here later is kept as it is here: a state that grows goes on from it.
                self._cache.put(prefix[:done], context.snapshot(lane.state))
        if self._cache.budget:
            self._cache.put(prefix, context.snapshot(lane.state))

    def _find_state(self, prefix: tuple[int, ...]) -> int:
        """How much of a state the lane holds, after bringing it back from the cache if that holds more."""
        context, lane = self._context, self._lane
        resident = self._cache.usable(lane.resident, prefix)
        kept = self._cache.find(prefix)
        if kept is not None and kept[0] > resident:
            done, snapshot = kept
            lane.clear(context)
            context.restore(lane.state, snapshot)
        elif resident:
            done = resident
        else:
            lane.clear(context)
            return 0
        # What is there may be longer than the whole prefix.
        if not self._method.hybrid and not context.drop(lane.state, done):
            lane.clear(context)
            return 0
        lane.resident = prefix[:done]
        return done

    def _set_aside(self, work: Work) -> None:
        """Do other work between two parts of a state, which comes back bit for bit."""
        context, lane = self._context, self._lane
        state, resident = context.snapshot(lane.state), lane.resident
        work()
        lane.clear(context)
        context.restore(lane.state, state)
        lane.resident = resident

    def _read_spine(self, spine: Spine) -> Generator[Decode, Outputs, None]:
        tokens = self._plan.prompts[spine.waves[0].prompts[0]].tokens
        begin = spine.begin
        for end in self._method.parts.ends(spine.end - spine.begin):
            yield from self._plain(tokens[begin : spine.begin + end], begin, self._lane.spine)
            begin = spine.begin + end

    def _read_wave(self, wave: Wave, base: int) -> Generator[Decode, Outputs, None]:
        context, tree, lane = self._context, wave.tree, self._lane
        branches = [lane.branch(number) for number in range(len(wave.prompts))]
        if wave.start:
            for branch in branches:
                context.copy(base, branch)
        wanted: dict[int, list[tuple[int, int]]] = {}  # tree slot -> (prompt index, position)
        for number, index in enumerate(wave.prompts):
            for position in _positions(self._plan.prompts[index]):
                wanted.setdefault(tree.slots[number][position - wave.start], []).append((index, position))
        begin, total = 0, len(tree.tokens)
        size = -(-total // -(-total // self._method.ubatch))  # parts of one size
        while begin < total:
            end = min(total, begin + size)
            slots = [slot for slot in range(begin, end) if slot in wanted]
            if len(slots) > context.shape.outputs:
                end = slots[context.shape.outputs]
                slots = slots[: context.shape.outputs]
            members = [tuple(branches[number] for number in tree.branches[slot]) for slot in range(begin, end)]
            for slot in range(begin, min(end, wave.trunk)):
                members[slot - begin] = (lane.spine, *members[slot - begin])
            positions = [wave.start + tree.depths[slot] for slot in range(begin, end)]
            outputs = [slot - begin for slot in slots]
            got = yield from self._decode(tree.tokens[begin:end], positions, members, outputs)
            for row, slot in enumerate(slots):
                self._take(got, row, wanted[slot], slot - begin)
            begin = end
        for index in wave.prompts:
            self._finish(index)
        for branch in branches:
            context.drop(branch)

    def _take(self, got: Outputs, row: int, wanted: list[tuple[int, int]], slot: int) -> None:
        """Keep what (prompt, position)s read at an output: its number `row`, at `slot` of the call."""
        for index, position in wanted:
            if got.rows is not None:
                self._hidden[index, position] = got.rows[row]
                continue
            for number, read in enumerate(self._plan.prompts[index].reads):
                if not isinstance(read, Labels):
                    raise ModelFailed("this engine was opened for labels, not hidden rows")
                if read.position == position:
                    self._values[index][number] = self._context.label_row(got.first + slot, read.tokens)

    def _finish(self, index: int) -> None:
        """The hidden reads of a prompt whose rows are all here."""
        if self._context.rows == "labels":
            return
        for number, read in enumerate(self._plan.prompts[index].reads):
            if not isinstance(read, Hidden):
                raise ModelFailed("this engine was opened for hidden rows, not labels")
            self._values[index][number] = np.stack([self._hidden[index, position] for position in read.positions])


def _positions(prompt: Prompt) -> list[int]:
    """Every position that is read, ascending, once."""
    found: set[int] = set()
    for read in prompt.reads:
        found.update((read.position,) if isinstance(read, Labels) else read.positions)
    return sorted(found)
