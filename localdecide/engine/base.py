"""The seam between families and llama.cpp: an engine evaluates plans for one loaded model.

It knows token ids and positions, nothing of text, questions or families. One thread owns it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from localdecide.core.errors import PromptTooLong
from localdecide.core.plan import Limits, Plan, Prompt, Rows, Vocabulary

Work = Callable[[], None]


def never() -> bool:
    return False


def nothing() -> None:
    return None


def refuse_long(prompts: Sequence[Prompt], context: int) -> None:
    """Raises PromptTooLong, with both numbers, for the first prompt over the context."""
    for prompt in prompts:
        if len(prompt.tokens) > context:
            raise PromptTooLong(
                f'prompt for question "{prompt.question}" has {len(prompt.tokens)} tokens; '
                f"the model's context is {context} (input is never truncated)",
                {"question": prompt.question, "tokens": len(prompt.tokens), "limit": context},
            )


class Engine(Protocol):
    """What `llama.py` is and `fake.py` imitates."""

    @property
    def vocabulary(self) -> Vocabulary: ...
    @property
    def limits(self) -> Limits: ...
    @property
    def metadata(self) -> Mapping[str, Any]:
        """Keys of the GGUF header, typed."""
        ...

    def evaluate(
        self,
        plan: Plan,
        *,
        exact: bool = False,
        cancelled: Callable[[], bool] = never,
        interrupt: Callable[[], Work | None] = nothing,
    ) -> Rows:
        """Every read of every prompt, a function of the plan and `exact` alone, bit for bit.

        interrupt: asked between two parts of a long state; the work it returns may evaluate other plans
        here, and changes nothing of this one.

        Raises PromptTooLong before anything is decoded, Cancelled when `cancelled()` turns true
        between two decodes, NumericalError for rows that are not numbers, ModelFailed otherwise.
        """
        ...

    def output_rows(self, tokens: list[int]) -> Any:
        """Rows of the output embedding, float32 [len(tokens), n_embd]."""
        ...

    def describe(self) -> dict[str, Any]:
        """Threads, batch sizes, devices, weight types: what was chosen and why."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class SharedEngine(Engine, Protocol):
    """An engine that evaluates several plans side by side, in the same decode calls.

    What travels together moves a probability by rounding noise, so the same plan need not give the same bits.
    """

    @property
    def parallel(self) -> int:
        """How many plans at most; 1 where that is not wanted or this model cannot."""
        ...

    def start(self, plan: Plan, *, exact: bool, cancelled: Callable[[], bool]) -> Any:
        """Begin an evaluation beside fewer than `parallel` others; returns what `step` names it by.

        Raises what `evaluate` raises before it decodes.
        """
        ...

    def step(self) -> list[tuple[Any, Rows | Exception]]:
        """One decode call for the evaluations that were started; those that ended with it, and how."""
        ...
