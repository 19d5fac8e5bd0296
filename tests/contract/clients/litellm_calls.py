"""litellm: systemone and decisions through four of its providers."""

import json
import sys

import litellm

base = sys.argv[1]
litellm.suppress_debug_info = True
litellm.num_retries = 0
questions = {
    "team": {"type": "choice", "instructions": "Which team?", "criteria": {"billing": "money", "sales": "deals"}},
    "urgent": {"type": "noul", "instructions": "Needs a reply today."},
    "anger": {"type": "score", "instructions": "How angry?", "criteria": ["calm", "angry"]},
}
listed = [
    {
        "type": "choice",
        "name": "team",
        "instructions": "Which team?",
        "choices": [{"value": "billing"}, {"value": "sales"}],
    },
    {"type": "predicate", "name": "urgent", "instructions": "Needs a reply today."},
    {"type": "score", "name": "anger", "instructions": "How angry?", "levels": [{"label": "calm"}, {"label": "angry"}]},
]
out = {}
for name, model, address in (
    ("typesafe", "typesafe/m", f"{base}/typesafe"),
    ("ollama", "ollama/m", f"{base}/ollama"),
    ("vllm", "hosted_vllm/m", f"{base}/vllm"),
):
    reply = litellm.systemone(
        model=model, state="Charged twice", questions=questions, api_base=address, api_key="unused"
    )
    out[name] = json.loads(reply.model_dump_json())["answers"]
reply = litellm.decisions(
    model="openai/m", input="Charged twice", questions=listed, api_base=f"{base}/openai/v1", api_key="unused"
)
out["openai"] = json.loads(reply.model_dump_json())["answers"]
reply = litellm.systemone(
    model="openrouter/m", state="Charged twice", questions=questions, api_base=f"{base}/api", api_key="unused"
)
out["openrouter"] = json.loads(reply.model_dump_json())["answers"]
sys.stdout.write(json.dumps(out))
