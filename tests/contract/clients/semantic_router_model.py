"""semantic-router: its decision models, alone and over many states."""

import asyncio
import json
import sys

from semantic_router.decision_models import SystemOneDecisionModel, TypeSafeDecisionModel

questions = {
    "team": {"type": "choice", "instructions": "Which team?", "criteria": {"billing": "money", "sales": None}},
    "urgent": {"type": "noul", "instructions": "Needs a reply today."},
    "anger": {"type": "score", "instructions": "How angry?", "criteria": ["calm", "angry"]},
}


async def main() -> None:
    """One request, then eight."""
    model = SystemOneDecisionModel(name="m", base_url=sys.argv[1])
    one = await model.aask("Charged twice", questions)
    many = await model.aask_many(["a"] * 8, questions)
    await model.aclose()
    strict = TypeSafeDecisionModel(base_url=f"{sys.argv[1]}/typesafe", api_key="unused")
    typesafe = await strict.aask("Charged twice", questions)
    await strict.aclose()
    sys.stdout.write(
        json.dumps({"one": one, "many": [answers["team"]["choice"] for answers in many], "typesafe": typesafe})
    )


asyncio.run(main())
