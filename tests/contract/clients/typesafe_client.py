"""typesafe-sdk: three types, compressed and multipart bodies, the model list, its error classes."""

import json
import sys

import typesafe_sdk as sdk

base, key = sys.argv[1], "unused"
QUESTIONS = {
    "team": sdk.Choice(instructions="Which team?", criteria={"billing": "money", "sales": None}),
    "urgent": sdk.Noul(instructions="Needs a reply today."),
    "anger": sdk.Score(instructions="How angry?", criteria=["calm", "angry"]),
}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(64)
out = {}
with sdk.TypeSafeClient(base_url=base, api_key=key) as client:
    result = client.system_one("Charged twice", QUESTIONS)
    out["team"] = [
        result.answers["team"].choice,
        result.answers["team"].confidence,
        result.answers["team"].probabilities,
    ]
    out["urgent"] = result.answers["urgent"].noul
    out["anger"] = [result.answers["anger"].score, result.answers["anger"].confidence, result.answers["anger"].legend]
    out["usage"] = [result.usage.input_tokens, result.usage.output_tokens]
    out["model"] = result.model
    out["request_id"] = bool(result.request_id)
    sent = {}
    large = client.system_one("Charged twice " * 200, QUESTIONS)
    out["large"] = large.answers["team"].choice
    out["compressed"] = large.raw_http_response.request.headers.get("content-encoding", "none")
    shown = client.system_one(
        {"photo": sdk.Image(PNG), "other": "<mine>"}, QUESTIONS, assets={"<mine>": sdk.Image(PNG)}
    )
    out["assets"] = shown.raw_http_response.request.headers["content-type"].partition(";")[0]
    out["assets_team"] = shown.answers["team"].choice
    out["extra_body"] = client.system_one("s", QUESTIONS, extra_body={"seed": 7, "x_trace_id": "z"}).model
    out["models"] = [model.name for model in client.models.list().models]
    for name, call in {
        "not_found": lambda: client.system_one("s", QUESTIONS, model="nope"),
        "invalid": lambda: client.system_one("s", QUESTIONS, extra_body={"questions": {}}),
        "box": lambda: client.system_one("s", {"b": sdk.Box(instructions="where?")}),
    }.items():
        try:
            call()
        except sdk.TypeSafeAPIError as error:
            out[name] = [type(error).__name__, str(error)]
sys.stdout.write(json.dumps(out))
