"""SGLang's `/v1/score`: probabilities of given tokens after given text. Replays a decision's token ids."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from localdecide.core.errors import InvalidRequest
from localdecide.core.probability import softmax
from localdecide.dialects import schemas
from localdecide.dialects.base import Body, Incoming, Operation, offload
from localdecide.dialects.fields import check_text, find_any, flag, items, temperature, text
from localdecide.dialects.sglang_decisions import DIALECT
from localdecide.service import DecisionService

Loc = tuple[str | int, ...]
Tokens = list[int]

MAX_ITEMS = 256
MAX_LABELS = 1024


@dataclass(frozen=True, slots=True)
class Scoring:
    """A request understood. prompts: texts or token ids; labels: ids for each prompt."""

    model: str | None
    prompts: list[str] | list[Tokens]
    labels: list[Tokens]
    apply_softmax: bool
    temperature: float
    return_logprobs: bool


def parse(incoming: Incoming) -> Scoring:
    """Query and items put together, one prompt an item."""
    body = incoming.object()
    prompts = _prompts(body)
    check_text(incoming, body["query"], body["items"])
    apply_softmax = flag(body, "apply_softmax")
    divisor = temperature(body) or 1.0
    if divisor != 1.0 and not apply_softmax:
        raise InvalidRequest.at(("temperature",), "is used with apply_softmax only")
    labels = _labels(body.get("label_token_ids"), len(prompts))
    return Scoring(text(body, "model"), prompts, labels, apply_softmax, divisor, flag(body, "return_token_logprobs"))


def _prompts(body: Body) -> list[str] | list[Tokens]:
    query, raw = body.get("query"), body.get("items")
    first = flag(body, "item_first")
    listed = [raw] if isinstance(raw, str) else items(raw, ("items",))
    if not 1 <= len(listed) <= MAX_ITEMS:
        raise InvalidRequest.at(("items",), f"must hold 1 to {MAX_ITEMS} items, not {len(listed)}")
    if isinstance(query, str) and all(isinstance(item, str) for item in listed):
        texts = [item + query if first else query + item for item in listed]
        if not all(texts):
            raise InvalidRequest.at(("items",), "query and item must not both be empty")
        return texts
    if isinstance(query, list) and all(isinstance(item, list) for item in listed):
        head = _ids(query, ("query",))
        bodies = [_ids(item, ("items", index)) for index, item in enumerate(listed)]
        joined = [tokens + head if first else head + tokens for tokens in bodies]
        if not all(joined):
            raise InvalidRequest.at(("items",), "query and item must not both be empty")
        return joined
    raise InvalidRequest.at(("query",), "query and items must both be text or both be token ids")


def _labels(raw: Any, count: int) -> list[Tokens]:
    listed = items(raw, ("label_token_ids",))
    if listed and all(isinstance(item, list) for item in listed):
        if len(listed) != count:
            raise InvalidRequest.at(("label_token_ids",), f"must hold one list for each of the {count} items")
        rows = [_ids(item, ("label_token_ids", index)) for index, item in enumerate(listed)]
    else:
        rows = [_ids(listed, ("label_token_ids",))] * count
    for row in rows:
        if not 1 <= len(row) <= MAX_LABELS:
            raise InvalidRequest.at(("label_token_ids",), f"must hold 1 to {MAX_LABELS} ids, not {len(row)}")
    return rows


def _ids(raw: Any, loc: Loc) -> Tokens:
    for index, token in enumerate(items(raw, loc)):
        if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < 2**31:
            raise InvalidRequest.at((*loc, index), "must be a token id")
    return list(raw)


async def answer(service: DecisionService, incoming: Incoming) -> Body:
    """Softmax over the labels, or their probabilities in the whole vocabulary."""
    asked = await offload(incoming, parse)
    model = await find_any(service, asked.model)
    found = await service.score(model, {"prompts": asked.prompts, "labels": asked.labels})
    rows: list[list[float]] = found["logprobs"]
    tokens = int(found["prompt_tokens"])
    scores = [
        softmax(row, asked.temperature) if asked.apply_softmax else [math.exp(value) for value in row] for row in rows
    ]
    return {
        "scores": scores,
        "pooled_hidden_states": None,
        "token_logprobs": rows if asked.return_logprobs else None,
        "model": asked.model or found["model"],
        "usage": {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0},
        "object": "scoring",
    }


SCORE = Operation(DIALECT, answer, "Probabilities of tokens as SGLang serves them", schemas.SCORING)
