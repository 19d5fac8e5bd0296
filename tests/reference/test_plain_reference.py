"""The plain family over llama.cpp against the same weights in PyTorch, by the rules of its readouts.

Labels are looked up here by their texts, and words are scored token by token; nothing of the family but the
tokens of its prompts is used, which golden files hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import awkward
import numpy as np
import pytest
import torch
from golden_prompts import CHAT
from test_label_families import Row, has, softmax

from localdecide.core.decision import Decision
from localdecide.core.model import ModelSpec, Readout
from localdecide.core.plan import Labels, Plan, Prompt
from localdecide.core.questions import Choice, Noul, Question
from localdecide.families import plain
from localdecide.families.base import Model, reading
from tests.reference.files import CONTEXT, engine, loaded
from tests.tiny import build, reference
from tests.tiny.model import TinyModel

pytestmark = pytest.mark.reference

REQUESTS = ("plain", "one option", "two options", "empty descriptions", "keys not sorted", "one-sided noul",
            "ten levels", "24 options", "26 options", "27 options", "255 options")  # fmt: skip
TOLERANCE = 1e-4
TEMPERATURE = 3.0
SETTINGS: dict[str, dict[str, Any]] = {
    "sglang": {},
    "vllm": {"prompt": "vllm/1"},
    "yesno": {"readouts": {"noul": Readout("yesno"), "choice": Readout("rotations")}},
    "text": {"readouts": {"choice": Readout("text"), "score": Readout("text")}},
}


def spec_of(setting: str) -> dict[str, Any]:
    return {"family": "plain", "temperatures": dict.fromkeys(("choice", "noul", "score"), TEMPERATURE)} | SETTINGS[
        setting
    ]


@pytest.fixture(scope="module", params=["qwen3", "qwen35"])
def tiny(request: Any, tmp_path_factory: pytest.TempPathFactory) -> TinyModel:
    path = tmp_path_factory.mktemp("plain") / "m.gguf"
    metadata = {"tokenizer.chat_template": CHAT}
    return build(request.param, path, seed=6, metadata=metadata, max_position_embeddings=CONTEXT)


class Network:
    """All rows of log-probabilities of a prompt."""

    def __init__(self, tiny: TinyModel) -> None:
        self._network = reference.load(tiny)
        self._known: dict[tuple[int, ...], Row] = {}

    def logprobs(self, tokens: tuple[int, ...]) -> Row:
        if tokens not in self._known:
            with torch.inference_mode():
                logits = self._network(input_ids=torch.tensor([list(tokens)]), use_cache=False).logits[0]
            self._known[tokens] = torch.log_softmax(logits.double(), -1).numpy()
        return self._known[tokens]


def words(tiny: TinyModel, question: Question) -> list[str]:
    """The labels that a question's prompt shows."""
    if isinstance(question, Noul):
        return ["yes", "no"]
    count = len(question.keys)
    letters = [chr(code) for code in range(65, 91)]
    if not isinstance(question, Choice):
        return [str(level) for level in range(count)]
    return letters[:count] if count <= 26 else [a + b for a in letters for b in letters if has(tiny, a + b)][:count]


def expected(tiny: TinyModel, network: Network, question: Question, prompts: Sequence[Prompt], readout: str) -> Row:
    """Probabilities in the order of the question's keys."""
    if readout == "text":
        sums = []
        for prompt in prompts:
            places = [read.position for read in prompt.reads if isinstance(read, Labels)]
            own = [read.tokens[0] for read in prompt.reads if isinstance(read, Labels)]
            assert list(prompt.tokens[places[0] + 1 :]) == own[:-1]
            rows = network.logprobs(prompt.tokens)
            sums.append(sum(rows[place, token] for place, token in zip(places, own, strict=True)))
        gains = [full - empty for full, empty in zip(sums[: len(sums) // 2], sums[len(sums) // 2 :], strict=True)]
        if not isinstance(question, Choice):
            return softmax(gains, TEMPERATURE)
        totals = []
        for option in question.options:
            totals.append(gains.pop(0) + (gains.pop(0) if option.description else 0.0))
        return softmax(totals, TEMPERATURE)
    rows = [network.logprobs(prompt.tokens)[-1] for prompt in prompts]
    labels = words(tiny, question)
    ids = [tiny.vocabulary.id(label) for label in labels]
    if readout == "yesno":
        pair = [np.logaddexp(rows[0][tiny.vocabulary.id(a)], rows[0][tiny.vocabulary.id(a.title())]) for a in labels]
        return softmax(pair, TEMPERATURE)
    # Rotation k lists option k first.
    turned = [np.roll(softmax(row[ids], TEMPERATURE), shift) for shift, row in enumerate(rows)]
    return np.asarray(np.mean(turned, axis=0))


def model_of(tiny: TinyModel, setting: str, opened: Any) -> Model:
    return Model(ModelSpec("m", str(tiny.path), **spec_of(setting)), opened.vocabulary, opened.limits, opened.metadata)


def readout(setting: str, question: Question) -> str:
    chosen = SETTINGS[setting].get("readouts", {}).get(question.kind)
    return chosen.name if chosen else "yesno" if (setting, question.kind) == ("vllm", "noul") else "labels"


@pytest.mark.parametrize("setting", SETTINGS)
def test_probabilities_are_pytorchs(setting: str, tiny: TinyModel) -> None:
    """Every type and readout in both wordings, 1 to 255 options, structured and non-ASCII input: within 1e-4."""
    ours = loaded(tiny.path, **spec_of(setting))
    planner, network = model_of(tiny, setting, engine(tiny.path)), Network(tiny)
    names = REQUESTS if setting in ("sglang", "vllm") else REQUESTS[:8]
    worst = 0.0
    for name in names:
        asked = awkward.decision(name)
        prompts = plain.plan(asked, planner).prompts
        result = ours.decide(asked, lambda: False)
        for key, question in asked.questions.items():
            own = [prompt for prompt in prompts if prompt.question == key]
            found = expected(tiny, network, question, own, readout(setting, question))
            worst = max(worst, float(np.abs(found - result.readings[key].probabilities).max()))

    assert worst <= TOLERANCE


def too_early(plan: Plan) -> Plan:
    """Every read one token too early."""
    moved = []
    for prompt in plan.prompts:
        reads = [replace(read, position=read.position - 1) for read in prompt.reads if isinstance(read, Labels)]
        moved.append(replace(prompt, reads=tuple(reads)))
    return replace(plan, prompts=tuple(moved))


def test_one_thing_wrong_moves_the_answers(tiny: TinyModel) -> None:
    """Wording, aliases, rotations, words, temperature, position: each alone moves answers by 1e-3 and more."""
    opened = engine(tiny.path)
    requests = [awkward.decision(name) for name in ("plain", "one-sided noul", "ten levels")]

    def answers(model: Model, change: Callable[[Plan], Plan] = lambda plan: plan) -> list[Row]:
        found = []
        for asked in requests:
            plan = change(plain.plan(asked, model))
            evidence = plain.read(asked, model, plan, opened.evaluate(plan))
            found += [np.asarray(reading(each).probabilities) for each in evidence.values()]
        return found

    right = model_of(tiny, "sglang", opened)
    cold = replace(right, spec=replace(right.spec, temperatures={}), cache={})
    base = answers(right)
    changed = {
        **{setting: answers(model_of(tiny, setting, opened)) for setting in ("vllm", "yesno", "text")},
        "temperature": answers(cold),
        "position": answers(right, too_early),
    }
    shifts = {
        name: max(float(np.abs(a - b).max()) for a, b in zip(base, each, strict=True)) for name, each in changed.items()
    }

    assert {} == {name: shift for name, shift in shifts.items() if shift < 10 * TOLERANCE}


def test_defaults_stay_near(tiny: TinyModel) -> None:
    """With the half-precision cache and flash attention of the defaults: within 1e-2."""
    exact, usual = (loaded(tiny.path, exact=exact, **spec_of("vllm")) for exact in (True, False))
    asked: Decision = awkward.decision("plain")
    results = [each.decide(asked, lambda: False).readings for each in (exact, usual)]

    for key in asked.questions:
        assert pytest.approx(results[0][key].probabilities, abs=1e-2) == results[1][key].probabilities
