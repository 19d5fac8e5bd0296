"""The engine over llama.cpp: plans in, rows out. One thread owns it.

The same plan gives the same bits: the memory is cleared for every request, a state is decoded in
calls of its own at fixed cuts, and branches follow in the order `schedule` gives them, which looks
at the request alone. Sequence 0 holds a state, sequence 1 a spine on top of it, the rest branches.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import llama_cpp as llama
import numpy as np

from localdecide.core.errors import Cancelled, ModelFailed
from localdecide.core.plan import Hidden, Labels, Limits, Plan, Prompt, Row, Rows
from localdecide.engine import tuning
from localdecide.engine.base import Work, never, nothing, refuse_long
from localdecide.engine.context import Context, Shape
from localdecide.engine.fast_weights import Choice
from localdecide.engine.schedule import Group, Spine, Wave, first_read, schedule
from localdecide.engine.state_cache import StateCache
from localdecide.engine.vocabulary import LlamaVocabulary
from localdecide.engine.weights import open_model, read_metadata

STATE, SPINE, BRANCHES = 0, 1, 2

_FLASH = {
    "auto": llama.LLAMA_FLASH_ATTN_TYPE_AUTO,
    "on": llama.LLAMA_FLASH_ATTN_TYPE_ENABLED,
    "off": llama.LLAMA_FLASH_ATTN_TYPE_DISABLED,
}
_KV_TYPES = {"f16": llama.GGML_TYPE_F16, "f32": llama.GGML_TYPE_F32}


class LlamaEngine:
    """See `engine.base.Engine`. parameters: PARAMETER values; weights: how the file was chosen.

    cache_bytes: budget of the state cache.
    """

    def __init__(
        self,
        path: str,
        parameters: Mapping[str, Any],
        *,
        weights: Choice | None = None,
        cache_bytes: int = 0,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        self._parameters, self._cache_bytes, self._weights = parameters, cache_bytes, weights
        self._model = open_model(path, parameters, progress)
        self.metadata: Mapping[str, Any] = read_metadata(self._model)
        self.vocabulary = LlamaVocabulary(
            llama.llama_model_get_vocab(self._model),
            prefixes_space=self.metadata.get("tokenizer.ggml.add_space_prefix"),
        )
        # What a chat template calls bos_token and eos_token: texts that the header only numbers.
        texts = {"bos_text": self.vocabulary.bos_text, "eos_text": self.vocabulary.eos_text}
        self.metadata = {**self.metadata, **texts}
        self.width = int(llama.llama_model_n_embd(self._model))
        self._hybrid = bool(llama.llama_model_is_hybrid(self._model) or llama.llama_model_is_recurrent(self._model))
        self._kind = ("causal", "labels")
        self.tuning = self._tune("causal")
        self.cache = StateCache(0, self.tuning.ubatch, cuttable=True)
        self._open: Context | None = None

    def _tune(self, attention: str) -> tuning.Tuning:
        return tuning.choose(
            self._parameters,
            os.environ,
            trained_context=int(llama.llama_model_n_ctx_train(self._model)),
            hybrid=self._hybrid,
            whole=attention == "bidirectional",
            gpu=bool(llama.llama_supports_gpu_offload()),
        )

    @property
    def limits(self) -> Limits:
        return Limits(context=self.tuning.context, ubatch=self.tuning.ubatch, width=self.width)

    @property
    def _context(self) -> Context:
        assert self._open is not None
        return self._open

    def _prepare(self, plan: Plan) -> None:
        """A context of the kind that the plan reads; a family always asks for the same."""
        hidden = any(isinstance(read, Hidden) for prompt in plan.prompts for read in prompt.reads)
        kind = (plan.attention, "hidden" if hidden else "labels")
        if self._open is not None and kind == self._kind:
            return
        if self._open is not None:
            self._open.close()
            self._open = None
        self._kind = kind
        self.tuning = chosen = self._tune(plan.attention)
        shape = Shape(
            cells=chosen.cells,
            batch=chosen.batch,
            ubatch=chosen.ubatch,
            sequences=chosen.sequences,
            outputs=chosen.batch if hidden else chosen.outputs,
            threads=chosen.threads,
            flash_attention=_FLASH[chosen.flash_attention],
            kv_type=_KV_TYPES[chosen.kv_type],
        )
        self._open = Context(self._model, shape, kind[1], self.width)
        if hidden and not self._open.has_memory:
            self._open.close()
            self._open = Context(self._model, shape, "encoder", self.width)
        if self._whole and self._open.has_memory:
            self._open.set_causal(False)
        self.cache = StateCache(self._cache_bytes, chosen.ubatch, cuttable=not self._hybrid)

    @property
    def _whole(self) -> bool:
        return self._kind[0] == "bidirectional"

    @property
    def _step(self) -> int:
        return self.tuning.ubatch

    def evaluate(
        self,
        plan: Plan,
        *,
        exact: bool = False,
        cancelled: Callable[[], bool] = never,
        interrupt: Callable[[], Work | None] = nothing,
    ) -> Rows:
        """Every read of every prompt; see `engine.base.Engine.evaluate`."""
        self._check(plan)
        self._prepare(plan)
        run = _Run(plan.prompts, cancelled, interrupt)
        if self._whole:
            for index in range(len(plan.prompts)):
                self._read_whole(run, index)
        else:
            # llama.cpp deals the tokens of several sequences out anew when a model is recurrent. It puts
            # its own outputs back in order, but not the rows that an observer sees: one branch at a time.
            alone = self._hybrid and self._kind[1] == "hidden"
            sequences = 1 if alone else self.tuning.sequences - BRANCHES
            groups = schedule(plan.prompts, exact=exact, sequences=sequences, tree=not self._hybrid)
            for group in groups:
                self._read_group(run, group)
        self._context.clear()
        return Rows(run.values, run.decoded, run.cached)

    def _check(self, plan: Plan) -> None:
        refuse_long(plan.prompts, self.limits.context)
        for prompt in plan.prompts:
            if not prompt.tokens or not prompt.reads or first_read(prompt) < prompt.shared:
                raise ModelFailed("a prompt must have tokens, and reads after its shared part only")

    def _read_whole(self, run: _Run, index: int) -> None:
        """A bidirectional prompt: all of it in one decode."""
        run.check()
        prompt = run.prompts[index]
        count = len(prompt.tokens)
        outputs = list(range(count)) if self._context.rows == "encoder" else _positions(prompt)
        self._context.clear()
        self._context.decode(list(prompt.tokens), list(range(count)), [(STATE,)] * count, outputs)
        run.decoded += count
        self._collect(run, index, outputs)

    def _read_group(self, run: _Run, group: Group) -> None:
        context = self._context
        self._decode_state(run, group.prefix)
        for spine in group.spines:
            base = STATE
            if spine.end > spine.begin:
                self._decode_spine(run, spine)
                base = SPINE
            for wave in spine.waves:
                self._decode_wave(run, wave, base)
            if base == SPINE:
                context.drop(SPINE)

    def _decode_state(self, run: _Run, prefix: tuple[int, ...]) -> None:
        """The state in sequence 0, from the cache as far as it goes, else in steps at fixed cuts."""
        context = self._context
        context.clear()
        done = 0
        if prefix and (found := self.cache.find(prefix)) is not None:
            done, snapshot = found
            context.restore(STATE, snapshot)
            if done < len(prefix) and not self._hybrid:
                context.drop(STATE, done)
            run.cached += done
        if done == len(prefix):
            return
        while done < len(prefix):
            run.check()
            end = min(len(prefix), done + self._step)
            self._decode_plain(prefix[done:end], done, STATE)
            run.decoded += end - done
            done = end
            if done < len(prefix) and (work := run.interrupt()) is not None:
                self._set_aside(work)
        if self.cache.budget:
            self.cache.put(prefix, context.snapshot(STATE))

    def _set_aside(self, work: Work) -> None:
        """Do other work between two parts of a state, which comes back bit for bit."""
        context = self._context
        state = context.snapshot(STATE)
        work()
        context.clear()
        context.restore(STATE, state)

    def _decode_spine(self, run: _Run, spine: Spine) -> None:
        tokens = run.prompts[spine.waves[0].prompts[0]].tokens
        if spine.begin:
            self._context.copy(STATE, SPINE)
        for begin in range(spine.begin, spine.end, self._step):
            run.check()
            end = min(spine.end, begin + self._step)
            self._decode_plain(tokens[begin:end], begin, SPINE)
            run.decoded += end - begin

    def _decode_plain(self, tokens: tuple[int, ...], start: int, sequence: int) -> None:
        count = len(tokens)
        self._context.decode(list(tokens), list(range(start, start + count)), [(sequence,)] * count, [])

    def _decode_wave(self, run: _Run, wave: Wave, base: int) -> None:
        context, tree = self._context, wave.tree
        if wave.start:
            for branch in range(len(wave.prompts)):
                context.copy(base, BRANCHES + branch)
        wanted: dict[int, list[tuple[int, int]]] = {}  # tree slot -> (prompt index, position)
        for branch, index in enumerate(wave.prompts):
            for position in _positions(run.prompts[index]):
                wanted.setdefault(tree.slots[branch][position - wave.start], []).append((index, position))
        rooms = context.shape.outputs
        begin, total = 0, len(tree.tokens)
        while begin < total:
            run.check()
            end = min(total, begin + self._step)
            outputs = [slot for slot in range(begin, end) if slot in wanted]
            if len(outputs) > rooms:
                end = outputs[rooms]
                outputs = outputs[:rooms]
            members = [tuple(BRANCHES + branch for branch in tree.branches[slot]) for slot in range(begin, end)]
            positions = [wave.start + tree.depths[slot] for slot in range(begin, end)]
            context.decode(tree.tokens[begin:end], positions, members, [slot - begin for slot in outputs])
            run.decoded += end - begin
            rows = context.hidden_rows(len(outputs)) if context.rows != "labels" and outputs else None
            for row, slot in enumerate(outputs):
                for index, position in wanted[slot]:
                    if rows is None:
                        self._read_labels(run, index, position, slot - begin)
                    else:
                        run.hidden[index, position] = rows[row]
            begin = end
        if self._context.rows != "labels":
            for index in wave.prompts:
                self._read_hidden(run, index)
        for branch in range(len(wave.prompts)):
            context.drop(BRANCHES + branch)

    def _collect(self, run: _Run, index: int, outputs: list[int]) -> None:
        if self._context.rows == "labels":
            for position in _positions(run.prompts[index]):
                self._read_labels(run, index, position, position)
            return
        rows = self._context.hidden_rows(len(outputs))
        for row, position in enumerate(outputs):
            run.hidden[index, position] = rows[row]
        self._read_hidden(run, index)

    def _read_labels(self, run: _Run, index: int, position: int, slot: int) -> None:
        for number, read in enumerate(run.prompts[index].reads):
            if not isinstance(read, Labels):
                raise ModelFailed("this engine was opened for labels, not hidden rows")
            if read.position == position:
                run.values[index][number] = self._context.label_row(slot, read.tokens)

    def _read_hidden(self, run: _Run, index: int) -> None:
        for number, read in enumerate(run.prompts[index].reads):
            if not isinstance(read, Hidden):
                raise ModelFailed("this engine was opened for hidden rows, not labels")
            run.values[index][number] = np.stack([run.hidden[index, position] for position in read.positions])

    def output_rows(self, tokens: list[int]) -> Any:
        """Rows of the output embedding; the runner reads them from the file."""
        raise ModelFailed("this engine does not hold the output embedding")

    def describe(self) -> dict[str, Any]:
        chosen = self.tuning
        return {
            "threads": chosen.threads,
            "context": chosen.context,
            "batch": chosen.batch,
            "ubatch": chosen.ubatch,
            "sequences": chosen.sequences,
            "flash_attention": chosen.flash_attention,
            "kv_cache_type": chosen.kv_type,
            "gpu": bool(llama.llama_supports_gpu_offload()),
            "weights": (self._weights.type if self._weights else None) or "as stored",
            "reasons": {**chosen.reasons, **({"weights": self._weights.reason} if self._weights else {})},
            "cache_bytes": self.cache.size,
            "cache_budget": self.cache.budget,
        }

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None
        if self._model:
            llama.llama_model_free(self._model)
            self._model = None


class _Run:
    """What one evaluation has read so far."""

    def __init__(
        self, prompts: tuple[Prompt, ...], cancelled: Callable[[], bool], interrupt: Callable[[], Work | None]
    ) -> None:
        self.prompts, self._cancelled, self.interrupt = prompts, cancelled, interrupt
        self.values: list[list[Row]] = [[None] * len(prompt.reads) for prompt in prompts]
        self.hidden: dict[tuple[int, int], Any] = {}
        self.decoded = 0
        self.cached = 0

    def check(self) -> None:
        if self._cancelled():
            raise Cancelled("request canceled")


def _positions(prompt: Prompt) -> list[int]:
    """Every position that is read, ascending, once."""
    found: set[int] = set()
    for read in prompt.reads:
        found.update((read.position,) if isinstance(read, Labels) else read.positions)
    return sorted(found)
