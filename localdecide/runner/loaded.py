"""One loaded model: a family and an engine, joined. Runs on the thread that owns the engine."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from localdecide.core import frames
from localdecide.core.decision import Decision, Result
from localdecide.core.errors import LocaldecideError, ModelFailed
from localdecide.core.model import ModelSpec
from localdecide.core.questions import Noul
from localdecide.engine.base import Engine, Work, never, nothing
from localdecide.families.base import Family, Model, check_options, reading
from localdecide.families.fitting import check_model
from localdecide.families.registry import family_for
from localdecide.runner.open import open_engine
from localdecide.runner.queue import Job
from localdecide.runner.score import score
from localdecide.runner.tensors import head_tensors, output_rows

_PROBE = Decision("x", {"probe": Noul("Is it?")})


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
        started = time.perf_counter()
        check_options(self._family, decision.options)
        plan = self._family.plan(decision, self._model)
        exact = decision.options.exact
        rows = self._engine.evaluate(plan, exact=exact, cancelled=cancelled, interrupt=interrupt)
        evidence = self._family.read(decision, self._model, plan, rows)
        readings = {key: reading(evidence[key], decision.options.temperature) for key in decision.questions}
        return Result(
            model=self._model.spec.name,
            readings=readings,
            input_tokens=sum(each.prompt_tokens for each in readings.values()),
            decoded_tokens=rows.decoded,
            cached_tokens=rows.cached,
            joint=self._family.JOINT,
            exact=exact,
            compute_seconds=time.perf_counter() - started,
        )

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
