"""langchain-typesafe's classifier and langchain-openai's decisions."""

import json
import sys

from langchain_openai.decisions import Choice as OpenAIChoice
from langchain_openai.decisions import OpenAIDecisions, Predicate
from langchain_openai.decisions import Score as OpenAIScore
from langchain_typesafe import Choice, Noul, Score, TypeSafeClassifier

base = sys.argv[1]
classifier = TypeSafeClassifier(base_url=f"{base}/typesafe", api_key="unused", model="m")
found = classifier.invoke(
    {
        "state": "Charged twice",
        "questions": {
            "team": Choice(instructions="Which team?", criteria={"billing": "money", "sales": None}),
            "urgent": Noul(instructions="Needs a reply today."),
            "anger": Score(instructions="How angry?", criteria=["calm", "angry"]),
        },
    }
)
out = {
    "typesafe": [
        found.choices["team"].choice,
        found.choices["team"].confidence,
        found.nouls["urgent"].noul,
        found.scores["anger"].score,
    ]
}
decisions = OpenAIDecisions(model="m", base_url=f"{base}/openai/v1", api_key="unused")
found = decisions.invoke(
    {
        "input": "Charged twice",
        "questions": {
            "team": OpenAIChoice(instructions="Which team?", choices={"billing": "money", "sales": "deals"}),
            "urgent": Predicate(instructions="Needs a reply today."),
            "anger": OpenAIScore(instructions="How angry?", levels=["calm", "angry"]),
        },
    }
)
out["openai"] = [
    found.choices["team"].choice,
    found.choices["team"].confidence,
    found.predicates["urgent"].probability,
    found.scores["anger"].score,
]
sys.stdout.write(json.dumps(out))
