"""Probabilities, answers and confidences against values computed by hand."""

from __future__ import annotations

import math

import pytest

from localdecide.core import confidence
from localdecide.core.answers import ChoiceAnswer, NoulAnswer, ScoreAnswer, answer
from localdecide.core.errors import NumericalError
from localdecide.core.probability import argmax, expectation, mean, softmax
from localdecide.core.questions import Choice, Noul, Option, Score


def test_softmax_by_hand() -> None:
    """Logits ln 1, ln 2, ln 5 give 1/8, 2/8, 5/8; a temperature of 2 takes square roots first."""
    logits = [0.0, math.log(2), math.log(5)]
    roots = [1, math.sqrt(2), math.sqrt(5)]

    assert softmax(logits) == pytest.approx([1 / 8, 2 / 8, 5 / 8], abs=1e-15)
    assert softmax(logits, 2) == pytest.approx([r / sum(roots) for r in roots], abs=1e-15)
    assert softmax([1000.0, 1000.0]) == [0.5, 0.5]


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_softmax_refuses_what_is_no_number(bad: float) -> None:
    """NaN and infinities become an error, never probabilities."""
    with pytest.raises(NumericalError, match="numerical error"):
        softmax([0.0, bad])


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan])
def test_softmax_refuses_a_bad_temperature(temperature: float) -> None:
    """A temperature must be positive."""
    with pytest.raises(NumericalError):
        softmax([0.0, 1.0], temperature)


def test_argmax_first_wins_and_mean() -> None:
    """The first of equal maxima; the mean of columns."""
    assert argmax([0.2, 0.4, 0.4]) == 1
    assert mean([[0.2, 0.8], [0.6, 0.4]]) == pytest.approx([0.4, 0.6])
    assert expectation([0.3, 0.5, 0.2]) == pytest.approx(0.9)


def test_answers() -> None:
    """choice: the most likely option; noul: P(true); score: the expected level."""
    options = Choice((Option("a"), Option("b")))

    assert ChoiceAnswer("b", {"a": 0.25, "b": 0.75}) == answer(options, (0.25, 0.75))
    assert ChoiceAnswer("a", {"a": 0.5, "b": 0.5}) == answer(options, (0.5, 0.5))
    assert NoulAnswer(0.8) == answer(Noul("x"), (0.8, 0.2))
    assert ScoreAnswer(pytest.approx(0.9), {"0": 0.3, "1": 0.5, "2": 0.2}) == answer(
        Score(("l", "m", "h")), (0.3, 0.5, 0.2)
    )


def test_confidence_of_a_fixed_result() -> None:
    """P = .9/.1 and .3/.7 in every definition, the numbers of the published comparison."""
    team, anger = (0.9, 0.1), (0.3, 0.7)

    assert confidence.entropy(team) == pytest.approx(0.531004, abs=1e-6)
    assert confidence.entropy(anger) == pytest.approx(0.118709, abs=1e-6)
    assert confidence.margin(team) == pytest.approx(0.8)
    assert confidence.dispersion(anger) == pytest.approx(0.4)
    assert confidence.range_dispersion(anger) == pytest.approx(0.7)
    assert confidence.top_mass(team, 0.95) == pytest.approx(0.855)
    assert confidence.top_mass(team, None) == pytest.approx(0.9)
    assert confidence.top(anger) == 0.7
    assert confidence.lead((0.5, 0.3, 0.2)) == pytest.approx(0.25)


def test_confidence_of_three_options() -> None:
    """{0.9856, 0.0066, 0.0078} has margin 0.978."""
    assert confidence.margin((0.9856, 0.0066, 0.0078)) == pytest.approx(0.9784, abs=1e-4)


def test_dispersion_by_hand() -> None:
    """Five levels, mode 2: E|i-2| = .1*2 + .2*1 + .1*1 + .1*2 = .7, D = (2+1+0+1+2)/5 = 1.2."""
    assert confidence.dispersion((0.1, 0.2, 0.5, 0.1, 0.1)) == pytest.approx(1 - 0.7 / 1.2)


@pytest.mark.parametrize("definition", [confidence.entropy, confidence.margin, confidence.dispersion, confidence.lead])
def test_confidence_at_the_ends(definition: object) -> None:
    """One option is certain, a one-hot distribution is certain, a uniform one is not at all."""
    assert callable(definition)
    assert definition((1.0,)) == 1.0
    assert definition((1.0, 0.0, 0.0)) == pytest.approx(1.0)
    assert definition((0.25, 0.25, 0.25, 0.25)) == pytest.approx(
        0.0, abs=0.51 if definition is confidence.dispersion else 1e-12
    )
