"""The one protocol the wire side sees. `LocalService` (scheduler + store) is one, a cluster may be another."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from localdecide.core.decision import Decision, Result
from localdecide.core.duration import KeepAlive


@dataclass(frozen=True, slots=True)
class ModelCard:
    """One model as the lists show it.

    name: `name:tag`. digest: sha256 of the manifest, hex. size: bytes on disk.
    modified: RFC 3339. details: format, family, families, parameter_size, quantization_level, ...
    """

    name: str
    digest: str
    size: int
    modified: str
    details: Mapping[str, Any] = field(default_factory=dict)
    capabilities: tuple[str, ...] = ("decision",)


@dataclass(frozen=True, slots=True)
class LoadedModel:
    """One resident model. expires_at: RFC 3339 or None for never; size: bytes resident (estimate)."""

    card: ModelCard
    size: int
    size_vram: int
    context_length: int
    expires_at: str | None
    state: str = "ready"
    info: Mapping[str, Any] = field(default_factory=dict)


class DecisionService(Protocol):
    """Everything the HTTP face asks for. Errors are of `core.errors`; models by any accepted name."""

    async def decide(self, model: str | None, decision: Decision, keep_alive: KeepAlive | None = None) -> Result:
        """Loads the model if needed. None, "" and "jev-latest" mean the default model.

        Cancelling the awaiting task drops queued work and stops running work at the next chunk;
        a load it started goes on.
        """
        ...

    async def score(self, model: str | None, request: Mapping[str, Any]) -> dict[str, Any]:
        """SGLang's `/v1/score` on token ids or text: `{scores, token_logprobs, prompt_tokens, model}`."""
        ...

    async def load(self, model: str | None, keep_alive: KeepAlive | None = None) -> LoadedModel: ...
    async def unload(self, model: str | None) -> bool:
        """Unload as soon as its requests end; False if it was not loaded."""
        ...

    async def models(self) -> list[ModelCard]: ...
    async def loaded(self) -> list[LoadedModel]: ...
    async def show(self, model: str | None, *, verbose: bool = False, reading: bool = False) -> dict[str, Any]:
        """The body of `/api/show`. reading: also how it decides, which takes a moment where it is not loaded."""
        ...

    async def resolve(self, model: str | None) -> str:
        """The served name of an installed model or one the library can provide. Raises ModelNotFound."""
        ...

    def create(self, request: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Progress of `/api/create`: `{"status": ...}` objects, ending with success."""
        ...

    def pull(self, request: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]: ...
    def job(self, kind: str, request: Mapping[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Progress of a push, export, import, verify or prune, ending with success."""
        ...

    async def look(self, kind: str, request: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to du, search (`q`) or ollama: what the store, the library or Ollama's store holds."""
        ...

    async def has_blob(self, digest: str) -> bool: ...
    async def add_blob(self, digest: str, chunks: AsyncIterator[bytes]) -> None:
        """Store an uploaded file. Raises InvalidRequest if its bytes have another digest."""
        ...

    async def copy(self, source: str, destination: str) -> None: ...
    async def delete(self, model: str) -> None: ...
    async def health(self) -> dict[str, Any]:
        """`{"ready": bool, ...}`: scheduler loop alive, runners answering, queue length."""
        ...

    async def close(self, grace: float) -> None:
        """Refuse new work, finish what runs within `grace` seconds, end every runner."""
        ...
