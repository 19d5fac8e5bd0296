"""The README's example is read, not guessed: ten other reports, the same question, its choice is right in eight."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

from localdecide.cli import questions
from localdecide.core.answers import ChoiceAnswer, answer
from localdecide.core.decision import Decision
from localdecide.core.model import ModelSpec, Readout
from localdecide.core.questions import parse_questions
from localdecide.runner.loaded import LoadedModel

ROOT = Path(__file__).resolve().parents[2]
WORDINGS = (
    "Her late goal decided the match, and the fans celebrated the championship all night.",
    "The goalkeeper saved two penalties before the home side lifted the trophy.",
    "After a slow first set the tennis player won the final in straight games.",
    "The coach praised his defenders: the league leaders did not concede a single goal.",
    "She ran the last lap in under a minute and took gold at the Olympics.",
    "Our basketball team came back from twenty points down to win the playoff game.",
    "The quarterback threw three touchdowns as his side reached the final.",
    "A hat-trick by the captain sent the visitors to the semi-finals of the cup.",
    "The cyclist attacked on the last climb and won the stage by half a minute.",
    "Thirty thousand people in the stadium saw the national team beat its rivals 3-1.",
)


def example() -> dict[str, list[str]]:
    """Words and options of the README's run command."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = text.partition("<!-- run-command -->")[2].split("```")[1].removeprefix("sh\n")
    command = shlex.split(block.replace("\\\n", " "))
    given = command[command.index("run") + 1 :]
    return {"model": given[:1], "state": given[1:2], "choice": given[given.index("--choice") + 1 :][:1]}


def test_the_example_is_right_in_at_least_eight_of_ten_wordings(smollm2_f16: Path) -> None:
    """Its own text and ten more about sport, each under the README's own question, read as the library reads it."""
    given = example()
    asked = questions.collect([("choice", given["choice"][0])])
    (name,) = asked
    card = (ROOT / "modelfiles" / given["model"][0] / "Modelfile").read_text(encoding="utf-8")
    found = re.search(r"^READOUT choice (\w+) TEMPERATURE ([\d.]+)$", card, re.MULTILINE)
    assert found is not None
    spec = ModelSpec(given["model"][0], str(smollm2_f16), readouts={"choice": Readout(found[1], float(found[2]))})
    model = LoadedModel(spec, {}, lambda fraction: None)

    def choice(state: str) -> str:
        parsed = parse_questions(json.loads(json.dumps(asked)))
        read = model.decide(Decision(state, parsed)).readings[name]
        said = answer(parsed[name], read.probabilities)
        assert isinstance(said, ChoiceAnswer)
        return said.choice

    right = choice(given["state"][0])
    others = [choice(wording) for wording in WORDINGS]

    assert right == "sports"
    assert len(set(WORDINGS)) == 10
    assert others.count(right) >= 8, others
