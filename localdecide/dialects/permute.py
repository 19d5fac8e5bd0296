"""Two ways to ask again: one choice under other orders of its options, and every question by itself."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from localdecide.core.decision import Reading, Result
from localdecide.core.errors import InvalidRequest
from localdecide.core.probability import argmax
from localdecide.core.questions import Choice
from localdecide.dialects.base import Answer, Asked, Body, Incoming, offload
from localdecide.dialects.fields import members
from localdecide.dialects.systemone import reading_of
from localdecide.service import DecisionService

MAX_RUNS = 64
DEFAULT_RUNS = 6


@dataclass(frozen=True, slots=True)
class Permutation:
    """A request understood. orders: the options' indices, the given order first."""

    asked: Asked
    key: str
    orders: list[list[int]]


def permute(parse: Callable[[Mapping[str, Any], Incoming], Asked]) -> Answer:
    """The operation for a contract whose System One body `parse` reads."""

    def read(incoming: Incoming) -> Permutation:
        body = incoming.object()
        asked = parse(members(body.get("request"), ("request",)), incoming)
        key = body.get("question")
        if not isinstance(key, str) or not key:
            raise InvalidRequest("question is required", {"loc": ["question"]})
        question = asked.decision.questions.get(key)
        if not isinstance(question, Choice):
            raise InvalidRequest("question must be a choice question", {"loc": ["question"]})
        runs = _integer(body, "n_perm", DEFAULT_RUNS, 1, MAX_RUNS)
        return Permutation(asked, key, orders(len(question.options), runs, _integer(body, "seed", 0, None, None)))

    async def answer(service: DecisionService, incoming: Incoming) -> Body:
        wanted = await offload(incoming, read)
        return render([await _run(service, wanted, order) for order in wanted.orders])

    return answer


def orders(options: int, runs: int, seed: int) -> list[list[int]]:
    """The given order, then shuffles that depend on the seed alone."""
    shuffle = random.Random(seed)
    found = [list(range(options))]
    while len(found) < runs:
        order = list(range(options))
        shuffle.shuffle(order)
        found.append(order)
    return found


async def _run(service: DecisionService, wanted: Permutation, order: list[int]) -> Body:
    decision = wanted.asked.decision
    question = decision.questions[wanted.key]
    assert isinstance(question, Choice)
    moved = replace(question, options=tuple(question.options[index] for index in order))
    started = time.perf_counter()
    result = await service.decide(
        wanted.asked.model, replace(decision, questions={wanted.key: moved}), wanted.asked.keep_alive
    )
    probabilities = reading_of(result, wanted.key).probabilities
    return {
        "order": list(moved.keys),
        "probabilities": dict(zip(moved.keys, probabilities, strict=True)),
        "choice": moved.keys[argmax(probabilities)],
        "latency_ms": milliseconds(started),
    }


def render(runs: list[Body]) -> Body:
    """The runs, whether they agree, and how far each option moved."""
    spread = {}
    for option in runs[0]["order"]:
        values = [run["probabilities"][option] for run in runs]
        spread[option] = max(values) - min(values)
    return {
        "runs": runs,
        "argmax_stable": len({run["choice"] for run in runs}) == 1,
        "spread": spread,
    }


async def decide_separately(service: DecisionService, asked: Asked) -> Result:
    """Every question in a pass of its own; tokens and times are summed."""
    results: list[Result] = []
    readings: dict[str, Reading] = {}
    for key, question in asked.decision.questions.items():
        alone = replace(asked.decision, questions={key: question})
        result = await service.decide(asked.model, alone, asked.keep_alive)
        readings[key] = reading_of(result, key)
        results.append(result)
    return replace(
        results[0],
        readings=readings,
        input_tokens=sum(result.input_tokens for result in results),
        decoded_tokens=sum(result.decoded_tokens for result in results),
        cached_tokens=sum(result.cached_tokens for result in results),
        load_seconds=sum(result.load_seconds for result in results),
        compute_seconds=sum(result.compute_seconds for result in results),
        joint=False,
    )


def milliseconds(started: float) -> float:
    """Since `started`, a value of `time.perf_counter`."""
    return round((time.perf_counter() - started) * 1000, 3)


def _integer(body: Mapping[str, Any], name: str, default: int, least: int | None, most: int | None) -> int:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequest.at((name,), "must be an integer")
    if (least is not None and value < least) or (most is not None and value > most):
        raise InvalidRequest.at((name,), f"must be from {least} to {most}")
    return value
