"""A service without a model: fixed or computed probabilities, errors on demand. For contract tests.

It keeps the promises a real one keeps: a question's answer depends on the state and the question, never
on its id, its place or its companions.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from localdecide.core.decision import Decision, Reading, Result
from localdecide.core.duration import KeepAlive
from localdecide.core.errors import InvalidRequest, ModelNotFound
from localdecide.core.jsontext import Json
from localdecide.core.questions import Question, question_to_json
from localdecide.service import LoadedModel, ModelCard

MODIFIED = "2026-01-02T03:04:05Z"


def card(name: str) -> ModelCard:
    """A card with every field a list shows."""
    details = {"format": "gguf", "family": "fake", "families": ["fake"], "parameter_size": "1M"}
    return ModelCard(name, hashlib.sha256(name.encode()).hexdigest(), 1234, MODIFIED, details)


@dataclass
class FakeService:
    """readings: probabilities by a question's instructions; others are computed from its words.

    names: installed models, the default first. error: raised by `decide` instead of an answer.
    gate: `decide` waits for it. label_mass, tokens: what every reading says.
    calls: (model, decision, keep_alive) of every `decide`.
    """

    readings: Mapping[str, Sequence[float]] = field(default_factory=dict)
    names: list[str] = field(default_factory=lambda: ["m"])
    error: BaseException | None = None
    gate: asyncio.Event | None = None
    label_mass: float | None = 0.95
    input_tokens: int = 120
    calls: list[tuple[str | None, Decision, KeepAlive | None]] = field(default_factory=list)
    cancelled: int = 0
    blobs: dict[str, bytes] = field(default_factory=dict)
    closed: bool = False
    ready: bool = True

    async def decide(self, model: str | None, decision: Decision, keep_alive: KeepAlive | None = None) -> Result:
        served = await self.resolve(model)
        self.calls.append((model, decision, keep_alive))
        if self.gate is not None:
            try:
                await self.gate.wait()
            except asyncio.CancelledError:
                self.cancelled += 1
                raise
        if self.error is not None:
            raise self.error
        readings = {key: self.read(decision, question) for key, question in decision.questions.items()}
        return Result(served, readings, self.input_tokens, exact=decision.options.exact)

    def read(self, decision: Decision, question: Question) -> Reading:
        """The reading of one question."""
        ids = decision.options.token_ids
        return Reading(
            probabilities=tuple(self.probabilities(decision.state, question)),
            readout="letters",
            temperature=decision.options.temperature or 1.0,
            prompt_tokens=40,
            label_mass=self.label_mass,
            argmax_is_label=None if self.label_mass is None else True,
            prompt_token_ids=tuple(range(100, 140)) if ids else None,
            label_token_ids=tuple(range(len(question.keys))) if ids else None,
        )

    def probabilities(self, state: Json, question: Question) -> Sequence[float]:
        """Fixed ones where `readings` has them, else weights from a hash of state, question and option."""
        words = question_to_json(question)
        if isinstance(words["instructions"], str) and words["instructions"] in self.readings:
            return self.readings[words["instructions"]]
        stem = json.dumps([state, words["type"], words["instructions"]], sort_keys=True)
        weights = [1 + hashlib.sha256(f"{stem}|{key}".encode()).digest()[0] for key in question.keys]
        return [weight / sum(weights) for weight in weights]

    async def score(self, model: str | None, request: Mapping[str, Any]) -> dict[str, Any]:
        served = await self.resolve(model)
        if self.error is not None:
            raise self.error
        rows = [[-1.0 - index for index in range(len(labels))] for labels in request["labels"]]
        return {"logprobs": rows, "prompt_tokens": sum(map(len, request["prompts"])), "model": served}

    async def load(self, model: str | None, keep_alive: KeepAlive | None = None) -> LoadedModel:
        return LoadedModel(card(await self.resolve(model)), 4321, 0, 4096, None)

    async def unload(self, model: str | None) -> bool:
        await self.resolve(model)
        return True

    async def models(self) -> list[ModelCard]:
        return [card(name) for name in self.names]

    async def loaded(self) -> list[LoadedModel]:
        return [LoadedModel(card(self.names[0]), 4321, 0, 4096, "2026-01-02T03:09:05Z")]

    async def show(self, model: str | None, *, verbose: bool = False, reading: bool = False) -> dict[str, Any]:
        found = card(await self.resolve(model))
        return {
            "modelfile": f"FROM {found.name}\n",
            "parameters": "",
            "template": "",
            "details": dict(found.details),
            "model_info": {"general.architecture": "fake"},
            "capabilities": list(found.capabilities),
            "modified_at": found.modified,
        }

    async def resolve(self, model: str | None) -> str:
        if model in (None, "", "jev-latest"):
            return self.names[0]
        if model not in self.names:
            raise ModelNotFound(f"model '{model}' not found", {"model": model})
        return str(model)

    async def create(self, request: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        if not request.get("from"):
            raise InvalidRequest.at(("from",), "is required")
        yield {"status": "writing manifest"}
        self.names.append(str(request["model"]))
        yield {"status": "success"}

    async def pull(self, request: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        yield {"status": "pulling manifest"}
        if self.error is not None:
            raise self.error
        yield {"status": "success"}

    async def job(self, kind: str, request: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        if self.error is not None:
            raise self.error
        yield {"status": f"{kind} {json.dumps(dict(request), sort_keys=True)}"}
        yield {"status": "success"}

    async def look(self, kind: str, request: Mapping[str, Any]) -> dict[str, Any]:
        return {"kind": kind, "request": dict(request)}

    async def has_blob(self, digest: str) -> bool:
        return digest in self.blobs

    async def add_blob(self, digest: str, chunks: AsyncIterator[bytes]) -> None:
        self.blobs[digest] = b"".join([chunk async for chunk in chunks])

    async def copy(self, source: str, destination: str) -> None:
        await self.resolve(source)
        self.names.append(destination)

    async def delete(self, model: str) -> None:
        self.names.remove(await self.resolve(model))

    async def health(self) -> dict[str, Any]:
        return {"ready": self.ready, "queued": 0}

    async def close(self, grace: float) -> None:
        self.closed = True
