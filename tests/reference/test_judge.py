"""Upstream's own server answers the same requests over the same files: answers and token counts agree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward
import pytest

from localdecide.core.decision import Decision
from localdecide.core.errors import UnsupportedInput
from localdecide.core.questions import parse_questions
from tests.reference.files import CONTEXT, TEMPERATURES, decision_file, loaded
from tests.reference.judge.judge import Judge, available

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not available(), reason="the judge's package, xllamacpp, is not installed"),
]

# What ours refuses and why: openjev has 52 letters, and upstream refuses more as well.
TOO_MANY = {"openjev": {"255 options"}}


def probabilities(answer: dict[str, Any]) -> list[float]:
    """The judge's distribution; a noul's true side alone."""
    return [answer["noul"]] if answer["type"] == "noul" else list(answer["probabilities"].values())


@pytest.mark.parametrize(("exact", "tolerance"), [(True, 1e-5), (False, 1e-2)], ids=["exact", "defaults"])
@pytest.mark.parametrize("family", TEMPERATURES)
def test_answers_like_upstream(family: str, exact: bool, tolerance: float, tmp_path: Path) -> None:
    """Every awkward request: same keys in the same order, same token count, same probabilities.

    Exact is a float32 cache without flash attention; at the defaults of both, rounding differs.
    """
    path = decision_file(family, tmp_path / "m.gguf").path
    ours = loaded(path, exact=exact)
    worst, compared = 0.0, 0
    with Judge(path, context=CONTEXT, exact=exact) as judge:
        for name in awkward.REQUESTS:
            status, reply = judge.ask(awkward.body(name))
            if name in TOO_MANY.get(family, ()):
                assert status == 400
                with pytest.raises(UnsupportedInput, match="too many options"):
                    ours.decide(awkward.decision(name), lambda: False)
                continue
            assert status == 200, (name, reply)
            result = ours.decide(awkward.decision(name), lambda: False)
            assert reply["usage"]["input_tokens"] == result.input_tokens, name
            assert list(reply["answers"]) == list(result.readings), name
            for key, answer in reply["answers"].items():
                question = awkward.decision(name).questions[key]
                if answer["type"] != "noul":
                    assert list(answer["probabilities"]) == list(question.keys)
                mine = result.readings[key].probabilities
                theirs = probabilities(answer)
                worst = max(worst, *(abs(a - b) for a, b in zip(theirs, mine, strict=False)))
                compared += 1

    assert compared >= 23
    assert worst <= tolerance


def test_a_null_state(tmp_path: Path) -> None:
    """Liquid d1 takes a state of null, and then leaves its heading out, here as there."""
    path = decision_file("lfm2-d1", tmp_path / "m.gguf").path
    raw = {"q": awkward.TEAM, "n": awkward.DONE}
    with Judge(path, context=CONTEXT) as judge:
        status, reply = judge.ask({"state": None, "questions": raw})
    result = loaded(path).decide(Decision(None, parse_questions(raw)), lambda: False)

    assert status == 200
    assert reply["usage"]["input_tokens"] == result.input_tokens
    for key, answer in reply["answers"].items():
        assert (
            pytest.approx(probabilities(answer), abs=1e-5)
            == result.readings[key].probabilities[: 2 if key == "q" else 1]
        )


def test_nimble_escapes_what_looks_like_a_token(tmp_path: Path) -> None:
    """nimble's own escapes make forged control tokens harmless; its tokens are then the judge's too."""
    path = decision_file("nimble", tmp_path / "m.gguf").path
    with Judge(path, context=CONTEXT) as judge:
        replies = {name: judge.ask(awkward.body(name)) for name in awkward.FORGED}
    ours = loaded(path)
    for name, (status, reply) in replies.items():
        result = ours.decide(awkward.decision(name), lambda: False)
        assert status == 200
        assert reply["usage"]["input_tokens"] == result.input_tokens
        for key, answer in reply["answers"].items():
            theirs = probabilities(answer)
            assert pytest.approx(theirs, abs=1e-5) == result.readings[key].probabilities[: len(theirs)]


def test_the_judge_tells_a_wrong_temperature(tmp_path: Path) -> None:
    """A judge that cannot see a fault judges nothing: another temperature in our Modelfile shows at once."""
    path = decision_file("lev", tmp_path / "m.gguf").path
    with Judge(path, context=CONTEXT) as judge:
        _, reply = judge.ask(awkward.body("ten levels"))
    wrong = loaded(path, temperatures={"score": 2.0}).decide(awkward.decision("ten levels"), lambda: False)
    theirs = probabilities(reply["answers"]["s"])

    assert max(abs(a - b) for a, b in zip(theirs, wrong.readings["s"].probabilities, strict=True)) > 1e-3
