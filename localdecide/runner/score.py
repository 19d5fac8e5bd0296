"""SGLang's `/v1/score`: log-probabilities of given tokens after given text, as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from localdecide.core.errors import InvalidRequest
from localdecide.core.plan import Labels, Plan, Prompt
from localdecide.engine.base import Engine


def score(engine: Engine, request: Mapping[str, Any], cancelled: Callable[[], bool]) -> dict[str, Any]:
    """request: `prompts` (lists of token ids, or texts), `labels` (one list of ids for each prompt).

    Returns `{"logprobs": [[...]], "prompt_tokens": n}`, log-probabilities over the whole vocabulary in
    the order of the labels. A prompt is decoded alone, as a plan of one question is.
    """
    prompts = []
    for number, (raw, labels) in enumerate(zip(request["prompts"], request["labels"], strict=True)):
        tokens = engine.vocabulary.tokenize(raw) if isinstance(raw, str) else raw
        if not tokens:
            raise InvalidRequest.at(("items", number), "has no tokens")
        _check(tokens, engine.vocabulary.size, ("items", number))
        _check(labels, engine.vocabulary.size, ("label_token_ids", number))
        read = Labels(len(tokens) - 1, tuple(labels))
        prompts.append(Prompt(str(number), tuple(tokens), (read,), int(request.get("shared", 0))))
    rows = engine.evaluate(Plan(tuple(prompts)), exact=True, cancelled=cancelled)
    return {
        "logprobs": [list(values[0].logprobs) for values in rows.values],
        "prompt_tokens": sum(len(prompt.tokens) for prompt in prompts),
    }


def _check(tokens: Sequence[int], size: int, loc: tuple[str | int, ...]) -> None:
    """Refuses an id that is no token of this model; llama.cpp would fail on it."""
    wrong = next((token for token in tokens if not 0 <= token < size), None)
    if wrong is not None:
        raise InvalidRequest.at(loc, f"token {wrong} is not in the model's vocabulary of {size}")
