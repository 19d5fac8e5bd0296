"""typesafe-haystack: its text router."""

import json
import sys

from haystack.utils import Secret
from haystack_integrations.components.routers.typesafe import TypeSafeTextRouter

router = TypeSafeTextRouter(
    {"billing": "money", "sales": None},
    instructions="Which team?",
    api_key=Secret.from_token("unused"),
    api_base_url=f"{sys.argv[1]}/typesafe",
)
sys.stdout.write(json.dumps(router.run("Charged twice")))
