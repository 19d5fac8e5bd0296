"""Evaluations side by side, on tiny random models: the same numbers as alone, each ends by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from localdecide.core.errors import Cancelled, ModelFailed, PromptTooLong
from localdecide.core.plan import Hidden, Labels, Plan, Prompt, Rows
from localdecide.engine.base import never
from localdecide.engine.llama import LlamaEngine
from tests.tiny import build

LABELS = (40, 41, 42)
READS: dict[str, Callable[[int], Any]] = {
    "labels": lambda position: Labels(position, LABELS),
    "rows": lambda position: Hidden((position - 1, position)),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target: Path = tmp_path_factory.mktemp("tiny") / "llama.gguf"
    build("llama", target, seed=3)
    return target


def engine(path: Path, parallel: int, **options: Any) -> LlamaEngine:
    parameters = {"num_ctx": 512, "num_ubatch": 32, "num_thread": 1, "kv_cache_type": "f32", "flash_attention": "off"}
    return LlamaEngine(str(path), parameters, parallel=parallel, **options)


def plan(number: int, read: Callable[[int], Any], questions: int = 3) -> Plan:
    """A state of its own for each number, of another length, with questions that begin alike."""
    state = tuple(range(300 + number, 300 + number + 20 * (number % 4) + 7))
    owns = [(5, 6, 7, 8, 20 + index, *range(number)) for index in range(questions)]
    return Plan(
        tuple(Prompt(f"q{own[4]}", state + own, (read(len(state) + len(own) - 1),), len(state)) for own in owns)
    )


def numbers(rows: Rows) -> np.ndarray:
    """All logits or rows of an evaluation."""
    return np.concatenate(
        [np.ravel(row.logits if hasattr(row, "logits") else row) for values in rows.values for row in values]
    )


def together(subject: LlamaEngine, plans: list[Plan], *, exact: bool = False) -> tuple[list[Any], int]:
    """What each plan ends with when a new one starts as soon as there is room, and the calls that took."""
    ended: dict[int, Any] = {}
    tickets: dict[Any, int] = {}
    waiting = list(enumerate(plans))
    calls = 0
    while waiting or tickets:
        while waiting and len(tickets) < subject.parallel:
            index, each = waiting.pop(0)
            tickets[subject.start(each, exact=exact, cancelled=never)] = index
        calls += 1
        for ticket, rows in subject.step():
            ended[tickets.pop(ticket)] = rows
    return [ended[index] for index in range(len(plans))], calls


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("kind", READS)
def test_side_by_side_gives_the_numbers_of_alone(path: Path, kind: str, exact: bool) -> None:
    """Nine plans on three lanes, states and branches in the same calls: rounding noise apart, nothing moves."""
    plans = [plan(number, READS[kind]) for number in range(9)]
    alone, shared = engine(path, 1), engine(path, 3)
    expected = [alone.evaluate(each, exact=exact) for each in plans]
    found, calls = together(shared, plans, exact=exact)

    for mine, wanted in zip(found, expected, strict=True):
        assert (wanted.decoded, wanted.cached) == (mine.decoded, mine.cached)
        np.testing.assert_allclose(numbers(mine), numbers(wanted), atol=2e-4)
    assert calls <= together(engine(path, 1), plans, exact=exact)[1] // 2


def test_a_call_holds_a_part_of_each(path: Path) -> None:
    """Four equal plans on four lanes take the calls of one."""
    plans = [plan(number, READS["labels"], questions=1) for number in (3, 7, 11, 15)]
    one = together(engine(path, 4), plans[:1])[1]

    assert one == together(engine(path, 4), plans)[1]


def test_a_state_that_one_request_read_is_restored_for_the_next(path: Path) -> None:
    """The state cache is one for all lanes."""
    subject = engine(path, 2, cache_bytes=1 << 26)
    asked = plan(3, READS["labels"])
    cold, again = together(subject, [asked, plan(2, READS["labels"]), asked])[0][::2]

    assert (0, 67) == (cold.cached, again.cached)
    np.testing.assert_allclose(numbers(again), numbers(cold), atol=2e-4)


def test_one_that_is_cancelled_leaves_the_others_alone(path: Path) -> None:
    """It ends at its next call, and its lane serves the next request."""
    subject = engine(path, 2)
    gone = threading.Event()
    staying = subject.start(plan(3, READS["labels"]), exact=False, cancelled=never)
    leaving = subject.start(plan(7, READS["labels"]), exact=False, cancelled=gone.is_set)
    gone.set()
    ended = dict(subject.step())
    assert [leaving] == list(ended)
    assert isinstance(ended[leaving], Cancelled)

    later = subject.start(plan(11, READS["labels"]), exact=False, cancelled=never)
    while len(ended) < 3:
        ended.update(subject.step())
    alone = engine(path, 1)
    for ticket, number in ((staying, 3), (later, 11)):
        np.testing.assert_allclose(
            numbers(ended[ticket]), numbers(alone.evaluate(plan(number, READS["labels"]))), atol=2e-4
        )


def test_what_cannot_run_is_refused_and_takes_no_lane(path: Path) -> None:
    """A prompt that is too long, rows of another kind, one more than there are lanes."""
    subject = engine(path, 2)
    long = Plan((Prompt("q", tuple(range(600)), (Labels(599, LABELS),)),))
    with pytest.raises(PromptTooLong):
        subject.start(long, exact=False, cancelled=never)
    subject.start(plan(3, READS["labels"]), exact=False, cancelled=never)
    with pytest.raises(ModelFailed, match="must be read alike"):
        subject.start(plan(3, READS["rows"]), exact=False, cancelled=never)
    subject.start(plan(7, READS["labels"]), exact=False, cancelled=never)
    with pytest.raises(ModelFailed, match="every lane is taken"):
        subject.start(plan(11, READS["labels"]), exact=False, cancelled=never)


@pytest.mark.parametrize("architecture", ["qwen35", "lfm2"])
def test_recurrent_models_share_nothing(tmp_path: Path, architecture: str) -> None:
    """One request at a time, whatever the setting, and `show` says why."""
    target = tmp_path / "tiny.gguf"
    build(architecture, target, seed=3)
    subject = engine(target, 4)

    assert 1 == subject.parallel
    assert "recurrent" in subject.describe()["reasons"]["parallel"]
