"""The family that CONTRIBUTING.md shows is a family."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from localdecide.core.decision import Decision
from localdecide.core.model import ModelSpec
from localdecide.core.questions import parse_questions
from localdecide.engine.fake import FakeEngine
from localdecide.families.base import Model, reading

TEXT = (Path(__file__).parents[3] / "CONTRIBUTING.md").read_text(encoding="utf-8")
QUESTION = {"type": "choice", "instructions": "Which?", "criteria": {"tech": None, "billing": "money"}}


def test_the_worked_example() -> None:
    """Its block of code runs as it stands: the prompt is what the text says, the temperature too."""
    parrot = ModuleType("parrot")
    exec(TEXT.partition("```python\n")[2].partition("```")[0], parrot.__dict__)
    engine = FakeEngine("seed")
    model = Model(ModelSpec("m", "p"), engine.vocabulary, engine.limits, engine.metadata)
    asked = Decision("Hi", parse_questions({"q": QUESTION}))
    plan = parrot.plan(asked, model)
    evidence = parrot.read(asked, model, plan, engine.evaluate(plan))["q"]
    text = "".join(map(engine.vocabulary.piece, plan.prompts[0].tokens))

    assert "<|im_start|>user\nText: Hi\nAsk: Which?\n(A) tech\n(B) billing: money\n<|im_end|>" in text
    assert evidence.temperature == 1.4
    assert len(reading(evidence).probabilities) == 2
    assert parrot.describe(model)["temperatures"]["choice"]["temperature"] == 1.4
