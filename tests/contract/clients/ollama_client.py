"""ollama (Python): systemone and the management calls."""

import json
import sys

import ollama

out = {}
questions = {
    "team": {"type": "choice", "instructions": "Which team?", "criteria": {"billing": "money", "sales": "deals"}},
    "urgent": {"type": "noul", "instructions": "Needs a reply today."},
    "anger": {"type": "score", "instructions": "How angry?", "criteria": ["calm", "angry"]},
}
with ollama.Client(host=sys.argv[1]) as client:
    reply = client.systemone(model="m", state="Charged twice", questions=questions, keep_alive="5m")
    team, anger = reply.answers["team"], reply.answers["anger"]
    out["team"] = [team.choice, team.confidence, team.probabilities]
    out["urgent"] = reply.answers["urgent"].noul
    out["anger"] = [anger.score, anger.confidence, anger.legend]
    out["usage"] = [reply.usage.input_tokens, reply.usage.output_tokens]
    out["models"] = [item.model for item in client.list().models]
    out["ps"] = [item.model for item in client.ps().models]
    out["capabilities"] = client.show("m").capabilities
    for name, call in {
        "missing": lambda: client.systemone(model="nope", state="s", questions=questions),
        "empty": lambda: client.systemone(model="m", state="s", questions={}),
    }.items():
        try:
            call()
        except ollama.ResponseError as error:
            out[name] = [error.status_code, error.error]
sys.stdout.write(json.dumps(out))
