"""pydantic-ai: agents whose output type becomes questions, over its three providers."""

import json
import os
import sys
from typing import Annotated, Literal

from pydantic import BaseModel, Field, WithJsonSchema
from pydantic_ai import Agent
from pydantic_ai.models import infer_model
from pydantic_ai.models.system_one import SystemOneModel
from pydantic_ai.providers.system_one import SystemOneProvider

base = sys.argv[1]


LEVELS = {"anyOf": [{"const": 0, "description": "calm"}, {"const": 1, "description": "angry"}]}


class Ticket(BaseModel):
    team: Literal["billing", "sales"] = Field(description="Which team?")
    urgent: bool = Field(description="Needs a reply today.")
    likely: Annotated[float, Field(ge=0, le=1, description="Needs a reply today.")]
    anger: Annotated[int, WithJsonSchema({**LEVELS, "description": "How angry?"})]


def ask(model: object) -> dict[str, object]:
    """The output of one run."""
    return Agent(model, output_type=Ticket).run_sync("Charged twice").output.model_dump()


os.environ["TYPESAFE_BASE_URL"], os.environ["TYPESAFE_API_KEY"] = f"{base}/typesafe", "unused"
os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"] = f"{base}/openai/v1", "unused"
out = {
    "system_one": ask(SystemOneModel("m", provider=SystemOneProvider(base_url=base))),
    "typesafe": ask(infer_model("typesafe:m")),
    "openai": ask(infer_model("openai-decisions:m")),
}
sys.stdout.write(json.dumps(out))
