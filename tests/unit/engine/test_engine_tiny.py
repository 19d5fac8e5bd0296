"""The engine on tiny random models of each memory kind: attention, windows, recurrent state; labels and rows."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from localdecide.core.errors import ModelFailed
from localdecide.core.plan import Hidden, Labels, Plan, Prompt, Row
from localdecide.engine import kernels, llama
from localdecide.engine.context import Context
from localdecide.engine.kernels import Kernels
from localdecide.engine.llama import LlamaEngine
from tests.tiny import build

STATE = tuple(range(300, 300 + 70))
LABELS = (40, 41, 42)


def prompts(read: Callable[[int], Any]) -> tuple[Prompt, ...]:
    """Five questions on one state: a common start, one of them with two variants, one longer than a step."""
    owns = {
        "a": [[5, 6, 7, 8, 9, 10]],
        "b": [[5, 6, 7, 8, 11]],
        "c": [[5, 6, 7, 8, 12, 13, 14], [5, 6, 7, 8, 12, 13, 15]],
        "d": [list(range(20, 20 + 45))],
        "e": [[5, 6, 99]],
    }
    return tuple(
        Prompt(key, STATE + tuple(own), (read(len(STATE) + len(own) - 1),), len(STATE))
        for key, variants in owns.items()
        for own in variants
    )


@pytest.fixture(scope="module", params=["llama", "qwen3", "gemma3", "qwen35", "lfm2"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target: Path = tmp_path_factory.mktemp("tiny") / f"{request.param}.gguf"
    build(request.param, target, seed=3)
    return target


def engine(path: Path, **options: Any) -> LlamaEngine:
    parameters = {"num_ctx": 512, "num_ubatch": 32, "num_thread": 1, "kv_cache_type": "f32", "flash_attention": "off"}
    return LlamaEngine(str(path), {**parameters, **options.pop("parameters", {})}, **options)


def flat(values: Any) -> list[Any]:
    return [row.logits if hasattr(row, "logits") else row.tobytes() for rows in values for row in rows]


READS: dict[str, Callable[[int], Any]] = {
    "labels": lambda position: Labels(position, LABELS),
    "rows": lambda position: Hidden((position - 1, position)),
}


@pytest.mark.parametrize("kind", READS)
def test_same_plan_same_bits(path: Path, kind: str) -> None:
    """Cold, repeated, from the cache, and exact questions in any company and order."""
    plan = Plan(prompts(READS[kind]))
    cold, cached = engine(path), engine(path, cache_bytes=1 << 26)
    first = flat(cold.evaluate(plan).values)

    assert first == flat(cold.evaluate(plan).values)
    assert first == flat(cached.evaluate(plan).values)
    again = cached.evaluate(plan)
    assert (first, len(STATE)) == (flat(again.values), again.cached)

    exact = flat(cold.evaluate(plan, exact=True).values)
    order = [5, 4, 2, 3, 1, 0]  # the questions backwards, each with its variants in their own order
    turned = Plan(tuple(plan.prompts[index] for index in order))
    assert [exact[index] for index in order] == flat(cold.evaluate(turned, exact=True).values)
    assert exact[4:5] == flat(cached.evaluate(Plan(plan.prompts[4:5]), exact=True).values)


def test_shared_decoding_equals_every_prompt_alone(path: Path) -> None:
    """Whatever is shared, the numbers are those of each prompt decoded from its first token."""
    plan = Plan(prompts(READS["labels"]))
    alone = [Plan((Prompt(p.question, p.tokens, p.reads, 0),)) for p in plan.prompts]
    subject = engine(path)
    shared = subject.evaluate(plan)
    expected = [subject.evaluate(each).values[0][0] for each in alone]

    for (row,), wanted in zip(shared.values, expected, strict=True):
        assert row.logits == pytest.approx(wanted.logits, abs=2e-4)
        assert row.log_norm == pytest.approx(wanted.log_norm, abs=2e-4)
    assert shared.decoded < sum(len(each.prompts[0].tokens) for each in alone) / 2


def test_hidden_rows_give_the_logits(path: Path) -> None:
    """Rows come after the output norm: the file's output matrix turns them into the label logits."""
    from localdecide.runner.tensors import output_rows

    labels: list[list[Row]] = list(map(list, engine(path).evaluate(Plan(prompts(READS["labels"]))).values))
    rows = engine(path).evaluate(Plan(prompts(READS["rows"]))).values
    matrix = output_rows(str(path))(list(LABELS))

    for (label,), (row,) in zip(labels, rows, strict=True):
        np.testing.assert_allclose(matrix @ row[-1], label.logits, atol=2e-3)


def test_other_work_between_the_parts_of_a_state(path: Path) -> None:
    """A state that is set aside comes back bit for bit, recurrent or not."""
    plan = Plan(prompts(READS["labels"]))
    other = Plan((Prompt("x", (7, 8, 9), (Labels(2, LABELS),), 0),))
    subject = engine(path)
    expected = (flat(subject.evaluate(plan).values), flat(subject.evaluate(other).values))
    seen: list[Any] = []

    def interrupt() -> Callable[[], None]:
        return lambda: seen.append(flat(subject.evaluate(other).values))

    assert (flat(subject.evaluate(plan, interrupt=interrupt).values), seen[0]) == expected
    assert len(seen) == 2


def test_a_longer_state_resumes_at_a_cut(path: Path) -> None:
    """A state that grows goes on from the last cut inside the shorter one, recurrent or not, with a cold run's bits."""
    longer = STATE + tuple(range(500, 530))
    read = Labels(len(longer), LABELS)
    plan = Plan((Prompt("q", (*longer, 9), (read,), len(longer)),))
    subject = engine(path, cache_bytes=1 << 26)
    subject.evaluate(Plan((Prompt("q", (*STATE, 9), (Labels(len(STATE), LABELS),), len(STATE)),)))
    warm = subject.evaluate(plan)

    assert (flat(engine(path).evaluate(plan).values), 64) == (flat(warm.values), warm.cached)


def on(state: tuple[int, ...]) -> Plan:
    """One short question on a state."""
    tokens = (*state, 5, 6)
    return Plan((Prompt("q", tokens, (Labels(len(tokens) - 1, LABELS),), len(state)),))


@pytest.mark.parametrize("length", [32, 64])
@pytest.mark.parametrize("cache", [0, 1 << 26])
def test_a_shorter_state_after_a_longer_one(path: Path, length: int, cache: int) -> None:
    """What the longer one left behind its end is cut off, though all of the shorter one is there."""
    plan = on(STATE[:length])
    subject = engine(path, cache_bytes=cache)
    subject.evaluate(on(STATE))

    assert flat(engine(path).evaluate(plan).values) == flat(subject.evaluate(plan).values)


def test_work_between_the_parts_asks_for_the_state_that_grew(path: Path) -> None:
    """What was there before the long state was read on is not taken for what is there now."""
    short, long = on(STATE[:32]), on((*STATE, *STATE))
    subject = engine(path)
    cold = [flat(engine(path).evaluate(each).values) for each in (short, long)]
    seen: list[Any] = []

    def interrupt() -> Callable[[], None]:
        return lambda: seen.append(flat(subject.evaluate(short).values))

    subject.evaluate(short)
    grown = flat(subject.evaluate(long, interrupt=interrupt).values)

    assert [cold[0]] * len(seen) == seen
    assert (cold[1], True) == (grown, len(seen) >= 2)


def test_a_memory_that_cannot_be_cut_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where llama.cpp refuses to cut a sequence, the state is decoded from its first token."""
    build("llama", tmp_path / "tiny.gguf", seed=3)
    subject = engine(tmp_path / "tiny.gguf")
    cold = flat(subject.evaluate(on(STATE[:32])).values)
    subject.evaluate(on(STATE))
    drop = Context.drop
    monkeypatch.setattr(Context, "drop", lambda self, one, start=-1: start < 0 and drop(self, one))
    again = subject.evaluate(on(STATE[:32]))

    assert (cold, 0) == (flat(again.values), again.cached)


@pytest.mark.parametrize("flash", ["on", "off"])
@pytest.mark.parametrize("length", [32, 60, 64])
def test_a_state_of_any_length_after_a_kept_one(path: Path, length: int, flash: str) -> None:
    """What a snapshot left out is never missed: states that begin like kept ones have a cold run's bits."""
    sizes = {"num_ubatch": 16, "flash_attention": flash}
    plan = on(STATE[:length])
    subject = engine(path, cache_bytes=1 << 26, parameters=sizes)
    for other in (STATE, (7, 8, 9), STATE[:48], (9, 8, 7)):
        subject.evaluate(on(other))

    expected = flat(engine(path, parameters=sizes).evaluate(plan).values)
    assert [expected] * 2 == [flat(subject.evaluate(each).values) for each in (plan, plan)]


def test_padding_leaves_no_trace(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where flash attention asks for full tiles, the same plan has the same bits before and after others.

    Recurrent models have none: llama.cpp deals their rows out in calls of a few, and padding with them.
    """
    slow = Kernels(1, True, 64, row_cost=1e-9, slow_cost=1.0, fast_cost=1e-9)
    monkeypatch.setattr(kernels, "measure", lambda *_: slow)
    sizes = {"num_ubatch": 128, "flash_attention": "on"}
    plans = [Plan(prompts(READS["labels"])), on(STATE[:5]), on(())]
    subject = engine(path, cache_bytes=1 << 26, parameters=sizes)
    found = [flat(subject.evaluate(plans[index]).values) for index in (0, 1, 2, 1, 0, 2)]
    cold = [flat(engine(path, parameters=sizes).evaluate(each).values) for each in plans]

    assert [cold[index] for index in (0, 1, 2, 1, 0, 2)] == found
    recurrent = path.stem in ("qwen35", "lfm2")
    assert recurrent == (subject.evaluate(plans[0]).padding == 0)


def test_a_context_that_could_not_be_made_is_made_for_the_next_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An encoder's second context may find no memory; the first one, closed by then, is not used again."""
    build("modern-bert", tmp_path / "tiny.gguf", seed=3)
    plan = Plan((Prompt("q", (5, 6, 7), (Hidden((0, 2)),)),), attention="bidirectional")
    subject = engine(tmp_path / "tiny.gguf")

    def refuse(model: Any, shape: Any, rows: str, width: int) -> Context:
        if rows == "encoder":
            raise ModelFailed("no memory")
        return Context(model, shape, rows, width)

    with monkeypatch.context() as patch:
        patch.setattr(llama, "Context", refuse)
        with pytest.raises(ModelFailed, match="no memory"):
            subject.evaluate(plan)
    assert flat(engine(tmp_path / "tiny.gguf").evaluate(plan).values) == flat(subject.evaluate(plan).values)


@pytest.mark.parametrize(("window", "cached"), [(65, 32), (64, 0)])
def test_a_state_is_cut_while_windows_show_all_of_it(tmp_path: Path, window: int, cached: int) -> None:
    """At 64 tokens, where the state's parts end, a window of 64 leaves the first one out of a snapshot."""
    build("gemma3", tmp_path / "tiny.gguf", seed=3, sliding_window=window)
    plan = on((*STATE[:40], 5, 5))
    subject = engine(tmp_path / "tiny.gguf", cache_bytes=1 << 26)
    for other in (STATE, (7, 8, 9)):
        subject.evaluate(on(other))
    found = subject.evaluate(plan)

    assert (cached, flat(engine(tmp_path / "tiny.gguf").evaluate(plan).values)) == (found.cached, flat(found.values))


def test_what_was_chosen_is_told_with_its_reason(path: Path) -> None:
    """Threads, parts, flash attention, cache type, sharing, and how idle threads and BLAS behave."""
    found = engine(path).describe()
    reasons = {"num_thread", "num_ctx", "num_ubatch", "flash_attention", "kv_cache_type", "parallel"}

    assert reasons | {"openmp_wait", "blas_threads"} == set(found["reasons"])
    assert all(found["reasons"].values())
    # The values that the package sets before the libraries load, unless the user's environment had its own.
    assert (os.environ["OMP_WAIT_POLICY"], os.environ["OPENBLAS_NUM_THREADS"]) == (
        found["openmp_wait"],
        found["blas_threads"],
    )
