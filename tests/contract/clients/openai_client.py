"""openai 3: decisions, the tool runner, its error classes, and the questions format through two APIs."""

import json
import sys

import openai
from openai.lib.decisions_tool_runner import DecisionsToolRunner

base = sys.argv[1]
out = {}
with openai.OpenAI(base_url=f"{base}/v1", api_key="unused", max_retries=0) as client:
    decision = client.decisions.create(
        model="m",
        input="Charged twice",
        questions=[
            {
                "type": "choice",
                "name": "team",
                "instructions": "Which team?",
                "choices": [{"value": True, "description": "money"}, {"value": "sales"}],
            },
            {"type": "predicate", "instructions": "Needs a reply today."},
            {
                "type": "score",
                "name": "anger",
                "instructions": "How angry?",
                "levels": [{"label": "calm"}, {"label": "angry"}],
            },
        ],
    )
    team, urgent, anger = decision.answers
    out["team"] = [team.name, team.choice, team.confidence, [item.value for item in team.probabilities]]
    out["urgent"] = [urgent.name, urgent.probability]
    out["anger"] = [anger.score, anger.confidence, [item.label for item in anger.probabilities]]
    out["usage"] = [
        decision.usage.input_tokens,
        decision.usage.input_tokens_details.cached_tokens,
        decision.usage.input_tokens_details.cache_write_tokens,
        decision.usage.output_tokens,
        decision.usage.output_tokens_details.reasoning_tokens,
        decision.usage.total_tokens,
    ]
    out["request_id"] = bool(decision._request_id)

    done = []
    runner = DecisionsToolRunner(
        observe=lambda: "A ticket about money",
        candidates=lambda seen: (
            [
                {"id": "refund", "description": "pay it back", "execute": lambda: done.append("refund")},
                {"id": "stop", "description": "nothing is left to do", "done": True},
            ]
            if not done
            else [{"id": "stop", "description": "nothing is left to do", "done": True}]
        ),
    )
    result = runner.run(client, {"model": "m", "input": "Handle the ticket"}, max_steps=5)
    out["runner"] = [result["status"], len(result["decisions"])]

    for name, change in {
        "bad": {"questions": []},
        "missing": {"model": "nope"},
        "stream": {"extra_body": {"stream": True}},
    }.items():
        request = {"model": "m", "input": "s", "questions": [{"type": "predicate", "instructions": "i"}], **change}
        try:
            client.decisions.create(**request)
        except openai.APIStatusError as error:
            out[name] = [type(error).__name__, error.code, error.param, error.message]

    questions = {
        "team": {"type": "choice", "instructions": "Which team?", "criteria": {"billing": "money", "sales": None}},
        "urgent": {"type": "noul", "instructions": "Needs a reply today."},
        "anger": {"type": "score", "instructions": "How angry?", "criteria": ["calm", "angry"]},
    }
    wanted = {"type": "questions", "questions": questions}
    completion = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "Charged twice"}], response_format=wanted
    )
    out["chat"] = json.loads(completion.choices[0].message.content)
    response = client.responses.create(model="m", input="Charged twice", text={"format": wanted})
    out["responses"] = json.loads(response.output_text)
    try:
        client.chat.completions.create(model="m", messages=[{"role": "user", "content": "Hi"}])
    except openai.BadRequestError as error:
        out["plain_chat"] = error.message
    out["models"] = [model.id for model in client.models.list()]
    out["model"] = client.models.retrieve("n").id
sys.stdout.write(json.dumps(out))
