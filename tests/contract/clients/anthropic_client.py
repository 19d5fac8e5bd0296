"""anthropic: the questions format through the Messages API, and its error class."""

import json
import sys

import anthropic

questions = {
    "team": {"type": "choice", "instructions": "Which team?", "criteria": {"billing": "money", "sales": None}},
    "urgent": {"type": "noul", "instructions": "Needs a reply today."},
    "anger": {"type": "score", "instructions": "How angry?", "criteria": ["calm", "angry"]},
}
out = {}
with anthropic.Anthropic(base_url=sys.argv[1], api_key="unused", max_retries=0) as client:
    request = {
        "model": "m",
        "max_tokens": 64,
        "messages": [{"role": "user", "content": "Charged twice"}],
        "output_config": {"format": {"type": "questions", "questions": questions}},
    }
    message = client.messages.create(**request)
    out["answers"] = json.loads(message.content[0].text)
    out["stop"] = message.stop_reason
    out["usage"] = [message.usage.input_tokens, message.usage.output_tokens]
    out["request_id"] = bool(message._request_id)
    for name, change in {"system": {"system": "Be brief."}, "missing": {"model": "nope"}}.items():
        try:
            client.messages.create(**{**request, **change})
        except anthropic.APIStatusError as error:
            out[name] = [type(error).__name__, error.body["error"]["type"]]
sys.stdout.write(json.dumps(out))
