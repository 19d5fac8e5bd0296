"""Evaluations side by side: one decode call carries the next part of each.

On a GPU a call costs about the same for a few rows as for hundreds; on a CPU it does not, and this is
off there. Which requests travel together depends on when they come, so answers may differ between two
runs by the rounding noise of batch sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from localdecide.core.errors import ModelFailed
from localdecide.core.plan import Rows
from localdecide.engine.context import Context
from localdecide.engine.evaluation import Decode, Evaluation, Lane, Outputs


@dataclass(slots=True, eq=False)
class Ticket:
    """An evaluation that runs on a lane. pending: the call it waits for."""

    lane: Lane
    evaluation: Evaluation
    pending: Decode


class Sharing:
    """The lanes of a context, and who runs on them."""

    def __init__(self, context: Context, lanes: Sequence[Lane]) -> None:
        self._context, self._free = context, list(lanes)
        self._running: list[Ticket] = []

    @property
    def busy(self) -> bool:
        return bool(self._running)

    def start(self, begin: Callable[[Lane], Evaluation]) -> Ticket:
        """Take a free lane up to the first call. Raises what the evaluation raises before it."""
        if not self._free:
            raise ModelFailed("every lane is taken")
        lane = self._free.pop()
        evaluation = begin(lane)
        try:
            ticket = Ticket(lane, evaluation, next(evaluation))
        except BaseException:
            self._leave(lane)
            raise
        self._running.append(ticket)
        return ticket

    def step(self) -> list[tuple[Ticket, Rows | Exception]]:
        """One decode call for as many as fit in it, longest waiting first; those that ended with it, and how."""
        chosen = self._choose()
        ended: list[tuple[Ticket, Rows | Exception]] = []
        try:
            rows = self._decode(chosen)
        except Exception as error:
            ended = [(ticket, error) for ticket in chosen]
        else:
            first = taken = 0
            for ticket in chosen:
                count = len(ticket.pending.outputs)
                mine = None if rows is None else rows[taken : taken + count]
                outputs = Outputs(first, mine)
                first, taken = first + len(ticket.pending.tokens), taken + count
                try:
                    ticket.pending = ticket.evaluation.send(outputs)
                except StopIteration as end:
                    ended.append((ticket, end.value))
                except Exception as error:
                    ended.append((ticket, error))
        gone = [ticket for ticket, _ in ended]
        for ticket in gone:
            self._leave(ticket.lane)
        waiting = [ticket for ticket in self._running if ticket not in chosen]
        self._running = waiting + [ticket for ticket in chosen if ticket not in gone]
        return ended

    def _choose(self) -> list[Ticket]:
        shape = self._context.shape
        chosen: list[Ticket] = []
        tokens = outputs = 0
        for ticket in self._running:
            tokens += len(ticket.pending.tokens)
            outputs += len(ticket.pending.outputs)
            if chosen and (tokens > shape.batch or outputs > shape.outputs):
                break
            chosen.append(ticket)
        return chosen

    def _decode(self, chosen: Sequence[Ticket]) -> NDArray[np.float32] | None:
        parts = [ticket.pending for ticket in chosen]
        starts = [0]
        for part in parts:
            starts.append(starts[-1] + len(part.tokens))
        outputs = [start + slot for start, part in zip(starts, parts, strict=False) for slot in part.outputs]
        self._context.decode(
            [token for part in parts for token in part.tokens],
            [position for part in parts for position in part.positions],
            [members for part in parts for members in part.sequences],
            outputs,
        )
        return self._context.rows_of(len(outputs))

    def _leave(self, lane: Lane) -> None:
        # A state that stayed would be in the way of all the others' attention.
        lane.clear(self._context)
        self._free.append(lane)
