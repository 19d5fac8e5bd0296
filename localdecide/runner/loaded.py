"""One loaded model: a family and an engine, joined. Runs on the thread that owns the engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from localdecide.core import frames
from localdecide.core.decision import Decision, Result
from localdecide.core.errors import LocaldecideError, ModelFailed
from localdecide.core.model import ModelSpec
from localdecide.core.plan import Plan, Rows
from localdecide.core.questions import Noul
from localdecide.engine.base import Engine, SharedEngine, Work, never, nothing
from localdecide.families.base import Family, Model, check_options, reading
from localdecide.families.fitting import check_model
from localdecide.families.registry import family_for
from localdecide.runner.open import open_engine
from localdecide.runner.queue import Job
from localdecide.runner.score import score
from localdecide.runner.tensors import head_tensors, output_rows

_PROBE = Decision("x", {"probe": Noul("Is it?")})


@dataclass(frozen=True, slots=True)
class _Asked:
    """A decision and what its family wants to know. started: seconds of `time.perf_counter`."""

    decision: Decision
    plan: Plan
    started: float


class LoadedModel:
    """spec: what to load. options: see `open_engine`. progress: called with fractions of the load.

    Raises BadModelFile and other ModelFailed.
    """

    def __init__(self, spec: ModelSpec, options: Mapping[str, Any], progress: Callable[[float], None]) -> None:
        self._engine: Engine = open_engine(spec, options, progress)
        metadata = self._engine.metadata
        head = head_tensors(spec.head) if spec.head else {}
        self._family: Family = family_for(spec, metadata, head.get(""))
        self._model = Model(
            spec=spec,
            vocabulary=self._engine.vocabulary,
            limits=self._engine.limits,
            metadata=metadata,
            head=head,
            output_rows=output_rows(spec.path),
        )
        self._shared = self._engine if isinstance(self._engine, SharedEngine) else None
        self._running: dict[Any, tuple[Job, _Asked]] = {}
        check_model(self._family, self._model)
        if not options.get("describe"):
            self._warm()

    def _warm(self) -> None:
        """Make the context, touch the weights, and meet a broken model now. A model that refuses the
        probe for a reason of its own (its template, its labels) refuses requests for the same reason."""
        try:
            self.decide(_PROBE)
        except ModelFailed:
            raise
        except LocaldecideError:
            pass

    def handle(self, job: Job, interrupt: Callable[[], Work | None] = nothing) -> dict[str, Any]:
        """The result of one frame. interrupt: see `engine.base.Engine.evaluate`."""
        match job.message["op"]:
            case "decide":
                decision = frames.decision_from_wire(job.message["decision"])
                return frames.result_to_wire(self.decide(decision, job.cancelled.is_set, interrupt))
            case "score":
                return score(self._engine, job.message["request"], job.cancelled.is_set)
            case other:
                raise ModelFailed(f"the runner has no operation {other!r}")

    def decide(
        self,
        decision: Decision,
        cancelled: Callable[[], bool] = never,
        interrupt: Callable[[], Work | None] = nothing,
    ) -> Result:
        """All readings of a decision."""
        asked = self._ask(decision)
        exact = decision.options.exact
        rows = self._engine.evaluate(asked.plan, exact=exact, cancelled=cancelled, interrupt=interrupt)
        return self._result(asked, rows)

    def _ask(self, decision: Decision) -> _Asked:
        started = time.perf_counter()
        check_options(self._family, decision.options)
        return _Asked(decision, self._family.plan(decision, self._model), started)

    def _result(self, asked: _Asked, rows: Rows) -> Result:
        decision = asked.decision
        evidence = self._family.read(decision, self._model, asked.plan, rows)
        readings = {key: reading(evidence[key], decision.options.temperature) for key in decision.questions}
        return Result(
            model=self._model.spec.name,
            readings=readings,
            input_tokens=sum(each.prompt_tokens for each in readings.values()),
            decoded_tokens=rows.decoded,
            cached_tokens=rows.cached,
            joint=self._family.JOINT,
            exact=decision.options.exact,
            compute_seconds=time.perf_counter() - asked.started,
        )

    # Decisions side by side.

    @property
    def room(self) -> int:
        """How many more decisions may be started; 0 where none share decode calls."""
        shared = self._shared
        return shared.parallel - len(self._running) if shared and shared.parallel > 1 else 0

    @property
    def running(self) -> int:
        """Decisions that were started and have not ended."""
        return len(self._running)

    def start(self, job: Job) -> None:
        """Begin a decision beside those that run; there must be `room`. Raises what `handle` raises."""
        assert self._shared is not None
        asked = self._ask(frames.decision_from_wire(job.message["decision"]))
        exact = asked.decision.options.exact
        ticket = self._shared.start(asked.plan, exact=exact, cancelled=job.cancelled.is_set)
        self._running[ticket] = job, asked

    def step(self) -> Iterator[tuple[Job, Callable[[], dict[str, Any]]]]:
        """One decode call; the jobs that ended with it, each with what `handle` would do."""
        assert self._shared is not None
        for ticket, rows in self._shared.step():
            job, asked = self._running.pop(ticket)
            yield job, partial(self._ended, asked, rows)

    def _ended(self, asked: _Asked, rows: Rows | Exception) -> dict[str, Any]:
        if isinstance(rows, Exception):
            raise rows
        return frames.result_to_wire(self._result(asked, rows))

    @property
    def cache_bytes(self) -> int:
        """Bytes in the state cache now."""
        return int(self._engine.describe().get("cache_bytes", 0))

    def describe(self) -> dict[str, Any]:
        """What `show` and `ps` say of a loaded model."""
        return {
            "family": self._family.NAME,
            "joint": self._family.JOINT,
            "reading": self._family.describe(self._model),
            "engine": self._engine.describe(),
        }
