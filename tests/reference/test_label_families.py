"""Label families over llama.cpp against the same weights in PyTorch and each family's published formula.

What is read is worked out here once more, from the texts of labels: nothing of the family but the
tokens of its prompts, which golden files and the judge hold.
"""

from __future__ import annotations

import json
import string
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import awkward
import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from gguf_convert import __main__ as gguf_convert
from localdecide.core.decision import Decision
from localdecide.core.model import ModelSpec
from localdecide.core.plan import Labels, Plan, Prompt
from localdecide.core.questions import Choice, Noul, Question
from localdecide.families.base import Model, reading
from localdecide.families.label_family import LabelFamily
from localdecide.families.registry import family_named
from localdecide.runner.loaded import LoadedModel
from localdecide.runner.tensors import head_tensors
from localdecide.store.store import Store
from tests.reference.files import CONTEXT, EXACT, TEMPERATURES, decision_file, engine, head_file, loaded
from tests.tiny import build, checkpoint, reference
from tests.tiny.model import TinyModel

pytestmark = pytest.mark.reference

REQUESTS = (
    "plain", "one option", "two options", "empty descriptions", "keys not sorted", "ten levels",
    "24 options", "26 options", "27 options", "52 options",
)  # fmt: skip
MOST = "255 options"
TOLERANCE = 1e-4
PROMPT = (
    "{{ state if state is string else state | tojson }}\n{{ instructions if instructions is string else "
    "instructions | tojson }}{% for o in options %} {{ o.label }}) {{ o.key }}{% endfor %} Answer:\n"
)
READOUT = (255, 64)
HEADS: dict[str, dict[str, Any]] = {
    "pplx-decider": {"attention": "bidirectional", "temperature": 1.0087417621345625},
    "d3": {"attention": "bidirectional", "temperature": 0.75, "max_length": CONTEXT},
}
PRUNED = ["linear_attention", "linear_attention", "full_attention", "linear_attention", "full_attention"]

Row = np.ndarray[Any, np.dtype[np.float32]]


def softmax(values: Sequence[float] | Row, temperature: float) -> Row:
    scaled = np.asarray(values, np.float64) / temperature
    weights = np.exp(scaled - scaled.max())
    return weights / weights.sum()


def codes(count: int) -> list[str]:
    pairs = [a + b for a in string.ascii_uppercase for b in string.ascii_uppercase]
    return [*string.ascii_uppercase, *pairs][:count]


def liquid_codes(model: TinyModel, names: Sequence[str]) -> list[str]:
    if all(len(name) == 1 and name in string.ascii_letters for name in names):
        return list(names)
    if len(names) <= 26:
        return codes(len(names))
    hashes = [f"#{number}" for number in range(200)]
    pool = [
        *(f"{i:02d}" for i in range(100)),
        *string.ascii_uppercase,
        *string.ascii_lowercase,
        *hashes,
        *codes(702)[26:],
    ]
    return [text for text in pool if has(model, text)][: len(names)]


def bucket(family: str, count: int) -> str:
    if family == "lev":
        return "small" if count <= 8 else "mid" if count <= 26 else "large"
    return "2" if count <= 2 else "3_5" if count <= 5 else "6_10" if count <= 10 else "11"


def expected(family: str, model: TinyModel, question: Question, rows: Sequence[Row]) -> Row:
    """Probabilities in the order of the question's keys. rows: the last token's logits of each prompt."""

    def at(row: Row, texts: Sequence[str]) -> Row:
        return np.asarray([row[model.vocabulary.id(text)] for text in texts])

    count = len(question.keys)
    table = TEMPERATURES.get(family, {})
    divisor = table.get(f"{question.kind}.{bucket(family, count)}", table.get(question.kind, 1.0))
    noul = isinstance(question, Noul)
    if family == "lev" and noul:
        true = float(softmax(at(rows[0], codes(9)), divisor) @ np.arange(9)) / 8
        return np.asarray([true, 1 - true])
    if family == "lev" and isinstance(question, Choice) and count > 1:
        forward, backward = (softmax(at(row, codes(count)), divisor) for row in rows)
        return (forward + backward[::-1]) / 2
    if family == "xor":
        forward, backward = (at(row, [f" {letter}" for letter in codes(count)]) for row in rows)
        if count > 2:
            return softmax((forward + backward[::-1]) / 2, 1.5)
        divisor = {"noul": 2.0, "choice": 2.2, "score": 2.7}[question.kind]
        return (softmax(forward, divisor) + softmax(backward, divisor)[::-1]) / 2
    if family == "lfm2-d1":
        groups = {
            "noul": [["yes", "Yes", "YES"], ["no", "No", "NO"]],
            "score": [[key] for key in question.keys],
            "choice": [[code, f" {code}"] for code in liquid_codes(model, question.keys)],
        }[question.kind]
        known = [[text for text in group if has(model, text)] for group in groups]
        return softmax([at(rows[0], group).max() for group in known], 1.0)
    if family == "systemone":
        words = ["yes", "no"] if noul else list(string.digits[:count]) if question.kind == "score" else codes(count)
        return softmax(at(rows[0], words), 1.0)
    alphabet = [*string.ascii_letters[26:], *string.ascii_letters[:26]] if family == "openjev" else codes(255)
    found = softmax(at(rows[0], alphabet[:count]), divisor)
    return found if family == "openjev" or not noul else found[::-1]


def has(model: TinyModel, text: str) -> bool:
    try:
        model.vocabulary.id(text)
    except KeyError:
        return False
    return True


def model_file(family: str, folder: Path) -> TinyModel:
    if family in TEMPERATURES:
        return decision_file(family, folder / "m.gguf")
    return build("qwen35", folder / "m.gguf", seed=1, max_position_embeddings=CONTEXT)


def spec_of(family: str) -> dict[str, Any]:
    return {"family": family, "prompt": PROMPT if family == "systemone" else None}


def model_of(family: str, tiny: TinyModel, opened: Any, head: Path | None = None) -> Model:
    spec = ModelSpec("m", str(tiny.path), **spec_of(family))
    tensors = head_tensors(str(head)) if head else {}
    return Model(spec, opened.vocabulary, opened.limits, opened.metadata, tensors)


def asked_of(family: str, name: str) -> Decision | None:
    """The request, or None where this family refuses it by its rules (which unit tests hold)."""
    asked = awkward.decision(name)
    least, most = {"openjev": (1, 52), "tev1": (2, 24), "xor": (2, 26)}.get(family, (1, 255))
    if any(not least <= len(question.keys) <= most for question in asked.questions.values()):
        return None
    return None if family == "tev1" and name == "empty descriptions" else asked


class Network:
    """The weights in PyTorch, loaded once; the last token's row alone is read."""

    def __init__(self, tiny: TinyModel) -> None:
        self._network = reference.load(tiny)

    def hidden(self, prompt: Prompt, *, causal: bool = True) -> Row:
        """The row after the output norm. causal: False lets attention layers see everything."""
        ids = torch.tensor([list(prompt.tokens)])
        everything = torch.zeros(1, 1, len(prompt.tokens), len(prompt.tokens))
        mask = None if causal else {"full_attention": everything, "linear_attention": None}
        with torch.inference_mode():
            rows = self._network.model(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
        return rows[0, -1].numpy()

    def logits(self, prompt: Prompt) -> Row:
        with torch.inference_mode():
            return self._network.lm_head(torch.from_numpy(self.hidden(prompt))).numpy()


FAMILIES = (*TEMPERATURES, "tev1", "xor", "systemone")


@pytest.mark.parametrize("family", FAMILIES)
def test_probabilities_are_pytorchs(family: str, tmp_path: Path) -> None:
    """Every type, 1, 2, 26, 27 and the most options, structured and non-ASCII input: within 1e-4."""
    tiny = model_file(family, tmp_path)
    ours = loaded(tiny.path, **spec_of(family))
    planner, network = model_of(family, tiny, engine(tiny.path)), Network(tiny)
    worst, compared = 0.0, 0
    for name in (*REQUESTS, MOST):
        if (asked := asked_of(family, name)) is None:
            continue
        prompts = family_named(family).plan(asked, planner).prompts
        result = ours.decide(asked, lambda: False)
        for key, question in asked.questions.items():
            rows = [network.logits(prompt) for prompt in prompts if prompt.question == key]
            difference = expected(family, tiny, question, rows) - result.readings[key].probabilities
            worst = max(worst, float(np.abs(difference).max()))
            compared += 1

    assert compared >= 7
    assert worst <= TOLERANCE


@pytest.mark.parametrize("family", FAMILIES)
def test_defaults_stay_near(family: str, tmp_path: Path) -> None:
    """With the half-precision cache and flash attention of the defaults: within 1e-2."""
    tiny = model_file(family, tmp_path)
    exact = loaded(tiny.path, **spec_of(family))
    usual = loaded(tiny.path, exact=False, **spec_of(family))
    for name in ("plain", "two options", "keys not sorted"):
        asked = awkward.decision(name)
        results = [each.decide(asked, lambda: False).readings for each in (exact, usual)]
        for key in asked.questions:
            assert pytest.approx(results[0][key].probabilities, abs=1e-2) == results[1][key].probabilities


@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
@pytest.mark.parametrize("family", HEADS)
def test_readout_heads_are_pytorchs(family: str, attention: str, tmp_path: Path) -> None:
    """A head file over a pruned hybrid backbone, causal and not: W h / T of the last token within 1e-4."""
    tiny = build("qwen35", tmp_path / "m.gguf", seed=2, layer_types=PRUNED, max_position_embeddings=CONTEXT)
    rows = np.random.default_rng(3).normal(size=READOUT).astype(np.float32) * 0.5
    keys = {**HEADS[family], "codes": codes(255), "attention": attention}
    head = head_file(tmp_path / "head.gguf", rows, **keys)
    ours = loaded(tiny.path, head=str(head), family=family)
    planner, network = model_of(family, tiny, engine(tiny.path), head), Network(tiny)
    worst = other = 0.0
    for name in ("plain", "one option", "two options", "empty descriptions", "26 options", "27 options", MOST):
        asked = awkward.decision(name)
        result = ours.decide(asked, lambda: False)
        for prompt in family_named(family).plan(asked, planner).prompts:
            question = asked.questions[prompt.question]
            found = {}
            for causal in (True, False):
                hidden = network.hidden(prompt, causal=causal)
                p = softmax((rows @ hidden)[: len(question.keys)], keys["temperature"])
                difference = (p[::-1] if isinstance(question, Noul) else p) - result.readings[
                    prompt.question
                ].probabilities
                found[causal] = float(np.abs(difference).max())
            worst = max(worst, found[attention == "causal"])
            other = max(other, found[attention != "causal"])

    assert worst <= TOLERANCE
    assert other > 100 * TOLERANCE, "the other kind of attention must give other answers"


@pytest.mark.parametrize("attention", ["causal", "bidirectional"])
@pytest.mark.parametrize("family", HEADS)
def test_readout_heads_stay_near_at_the_defaults(family: str, attention: str, tmp_path: Path) -> None:
    """With the half-precision cache and flash attention of the defaults: within 1e-2."""
    tiny = build("qwen35", tmp_path / "m.gguf", seed=2, layer_types=PRUNED, max_position_embeddings=CONTEXT)
    rows = np.random.default_rng(3).normal(size=READOUT).astype(np.float32) * 0.5
    head = head_file(tmp_path / "head.gguf", rows, **HEADS[family] | {"codes": codes(255), "attention": attention})
    exact, usual = (loaded(tiny.path, exact=exact, head=str(head), family=family) for exact in (True, False))
    for name in ("plain", "two options", "27 options"):
        asked = awkward.decision(name)
        results = [each.decide(asked, lambda: False).readings for each in (exact, usual)]
        for key in asked.questions:
            assert pytest.approx(results[0][key].probabilities, abs=1e-2) == results[1][key].probabilities


def wrong_position(plan: Plan) -> Plan:
    """Every read one token too early."""
    prompts = []
    for prompt in plan.prompts:
        (read,) = prompt.reads
        assert isinstance(read, Labels)
        prompts.append(replace(prompt, reads=(replace(read, position=read.position - 1),)))
    return replace(plan, prompts=tuple(prompts))


def answers(family: LabelFamily, opened: Any, model: Model, asked: Decision, change: Any = None) -> dict[str, Row]:
    plan = family.plan(asked, model)
    plan = change(plan) if change else plan
    evidence = family.read(asked, model, plan, opened.evaluate(plan))
    return {key: np.asarray(reading(each).probabilities) for key, each in evidence.items()}


def faults(family: LabelFamily) -> dict[str, LabelFamily]:
    """The family with one thing wrong, for each thing that it says of itself."""
    wrong = {
        "temperature": replace(
            family, bucket=lambda count: "none", constants={"choice": 4.0, "noul": 4.0, "score": 4.0}
        ),
        "keys": replace(family, sort_keys=not family.sort_keys),
    }
    if family.name != "lev":  # which rates a noul on a scale without sides
        wrong["noul's order"] = replace(family, true_first=not family.true_first)
    if family.name in ("lev", "xor"):
        wrong["orders not turned back"] = replace(
            family, combine=lambda q, v, t: family.combine(q, tuple(each[:: (-1) ** i] for i, each in enumerate(v)), t)
        )
        once = family.combine if family.name == "lev" else lambda q, v, t: v
        wrong["one order"] = replace(family, orders=lambda question: 1, combine=once)
    if family.name == "lfm2-d1":

        def first_only(model: Model, key: str, question: Question) -> Any:
            found = family.codes(model, key, question)
            return replace(found, groups=tuple(group[:1] for group in found.groups))

        wrong["groups"] = replace(family, codes=first_only)
    if family.name == "xor":
        wrong["mean of probabilities"] = replace(family, combine=lambda q, v, t: v)
    return wrong


@pytest.mark.parametrize("family", FAMILIES)
def test_one_thing_wrong_moves_the_answers(family: str, tmp_path: Path) -> None:
    """Order, temperature, key order, position, the family's own: each alone moves answers by 1e-3 and more."""
    tiny = model_file(family, tmp_path)
    opened = engine(tiny.path)
    right = family_named(family).family
    requests = [
        asked
        for name in ("plain", "keys not sorted", "ten levels", "empty descriptions")
        if (asked := asked_of(family, name))
    ]
    base = [answers(right, opened, model_of(family, tiny, opened), asked) for asked in requests]

    def moved(wrong: LabelFamily, change: Any = None) -> float:
        model = model_of(family, tiny, opened)
        if not change and wrong.bucket is not right.bucket:
            model = replace(model, metadata={k: v for k, v in model.metadata.items() if ".temperature." not in k})
        found = [answers(wrong, opened, model, asked, change) for asked in requests]
        return max(float(np.abs(a[key] - b[key]).max()) for a, b in zip(base, found, strict=True) for key in a)

    shifts = {name: moved(wrong) for name, wrong in faults(right).items()}
    shifts["position"] = moved(right, wrong_position)

    assert {} == {name: shift for name, shift in shifts.items() if shift < 10 * TOLERANCE}


@pytest.mark.parametrize("family", HEADS)
def test_a_converted_checkpoint_answers_like_itself(family: str, tmp_path: Path) -> None:
    """Hugging Face files through gguf_convert and `create` to answers: those of the checkpoint in PyTorch."""
    folder = tmp_path / "Tiny"
    tiny = build("qwen35", tmp_path / "m.gguf", seed=4, layer_types=PRUNED)
    checkpoint.save(tiny, folder)
    rows = np.random.default_rng(3).normal(size=READOUT).astype(np.float32) * 0.5
    (folder / "decision_config.json").write_text(
        json.dumps(
            {
                "codes": codes(255),
                "temperature": 0.75,
                "attention_mode": "noncausal_full_attention",
                **({"prompt": "d3"} if family == "d3" else {}),
            }
        )
    )
    save_file({"weight": torch.from_numpy(rows)}, folder / "readout.safetensors")
    assert gguf_convert.main([str(folder), "--out", str(tmp_path / "out"), "--type", "F32"]) == 0
    store = Store(tmp_path / "store")
    list(
        store.create(
            {
                "model": "tiny",
                "modelfile": (tmp_path / "out" / "Modelfile").read_text(),
                "directory": str(tmp_path / "out"),
            }
        )
    )
    spec = store.resolve("tiny").spec
    ours = LoadedModel(replace(spec, parameters=EXACT), {}, lambda fraction: None)
    planner, network = model_of(family, tiny, engine(Path(spec.path)), Path(str(spec.head))), Network(tiny)
    asked = awkward.decision("plain")
    result = ours.decide(asked, lambda: False)
    for prompt in family_named(family).plan(asked, planner).prompts:
        question = asked.questions[prompt.question]
        p = softmax((rows @ network.hidden(prompt, causal=False))[: len(question.keys)], 0.75)
        p = p[::-1] if isinstance(question, Noul) else p
        assert pytest.approx(p, abs=TOLERANCE) == result.readings[prompt.question].probabilities
