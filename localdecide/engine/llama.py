"""The engine over llama.cpp: plans in, rows out. One thread owns it.

`evaluation.py` says which decode calls a plan needs; here they are made, alone or side by side.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import llama_cpp as llama

from localdecide.core.errors import ModelFailed
from localdecide.core.plan import Hidden, Limits, Plan, Rows
from localdecide.engine import kernels, tuning
from localdecide.engine.base import Work, never, nothing, refuse_long
from localdecide.engine.context import Context, Shape
from localdecide.engine.evaluation import Decode, Evaluation, Lane, Method, Outputs, Run
from localdecide.engine.fast_weights import Choice
from localdecide.engine.kernels import Kernels, ModelShape
from localdecide.engine.schedule import first_read
from localdecide.engine.sharing import Sharing, Ticket
from localdecide.engine.state_cache import StateCache
from localdecide.engine.vocabulary import LlamaVocabulary
from localdecide.engine.weights import main_type, open_model, read_metadata

_FLASH = {
    "auto": llama.LLAMA_FLASH_ATTN_TYPE_AUTO,
    "on": llama.LLAMA_FLASH_ATTN_TYPE_ENABLED,
    "off": llama.LLAMA_FLASH_ATTN_TYPE_DISABLED,
}
_KV_TYPES = {"f16": llama.GGML_TYPE_F16, "f32": llama.GGML_TYPE_F32}


class LlamaEngine:
    """See `engine.base.Engine`. parameters: PARAMETER values; weights: how the file was chosen.

    cache_bytes: budget of the state cache. parallel: evaluations that may run side by side (`start`, `step`);
    models that cannot share decode calls keep to one. measured: folder of what is known of this machine's
    kernels; None measures them once for each process.
    """

    def __init__(
        self,
        path: str,
        parameters: Mapping[str, Any],
        *,
        weights: Choice | None = None,
        cache_bytes: int = 0,
        parallel: int = 1,
        measured: Path | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> None:
        self._parameters, self._cache_bytes, self._weights = parameters, cache_bytes, weights
        self._wanted_parallel = parallel
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
        self._window = int(llama.llama_model_n_swa(self._model))
        self._hybrid = bool(llama.llama_model_is_hybrid(self._model) or llama.llama_model_is_recurrent(self._model))
        self._gpu = bool(llama.llama_supports_gpu_offload())
        self._kernels: Kernels | None = None
        if not self._gpu:
            given, _ = tuning.given_threads(parameters, os.environ)
            self._kernels = kernels.measure(self._shape(), measured, tuning.default_threads(), given)
        self._kind = ("causal", "labels")
        self.tuning = self._tune("causal")
        self.cache = StateCache(0, self.tuning.parts, cuttable=0)
        self._open: Context | None = None
        self._lanes: list[Lane] = []
        self._shared: Sharing | None = None

    def _tune(self, attention: str) -> tuning.Tuning:
        return tuning.choose(
            self._parameters,
            os.environ,
            trained_context=int(llama.llama_model_n_ctx_train(self._model)),
            hybrid=self._hybrid,
            whole=attention == "bidirectional",
            gpu=self._gpu,
            windowed=self._window > 0,
            parallel=self._wanted_parallel,
            kernels=self._kernels,
        )

    def _shape(self) -> ModelShape:
        model = self._model
        heads = max(1, int(llama.llama_model_n_head(model)))
        embeddings = int(llama.llama_vocab_n_tokens(llama.llama_model_get_vocab(model))) * self.width
        return ModelShape(
            layers=max(1, int(llama.llama_model_n_layer(model))),
            heads=heads,
            kv_heads=max(1, int(llama.llama_model_n_head_kv(model))),
            head_dim=int(self._header("attention.key_length") or self.width // heads),
            weights=max(1, int(llama.llama_model_n_params(model)) - embeddings),
            kind=(self._weights.type if self._weights else None) or main_type(self.metadata),
        )

    def _header(self, key: str) -> Any:
        return self.metadata.get(f"{self.metadata.get('general.architecture')}.{key}")

    @property
    def limits(self) -> Limits:
        return Limits(context=self.tuning.context, ubatch=self.tuning.ubatch, width=self.width)

    @property
    def _context(self) -> Context:
        assert self._open is not None
        return self._open

    def _kind_of(self, plan: Plan) -> tuple[str, str]:
        hidden = any(isinstance(read, Hidden) for prompt in plan.prompts for read in prompt.reads)
        return plan.attention, "hidden" if hidden else "labels"

    def _prepare(self, plan: Plan) -> None:
        """A context of the kind that the plan reads; a family always asks for the same."""
        kind = self._kind_of(plan)
        hidden = kind[1] == "hidden"
        if self._open is not None and kind == self._kind:
            return
        self._close()
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
            self._close()
            self._open = Context(self._model, shape, "encoder", self.width)
        if self._whole and self._open.has_memory:
            self._open.set_causal(False)
        cuttable = 0 if self._hybrid else self._window - 1 if self._window else chosen.context
        self.cache = StateCache(self._cache_bytes, chosen.parts, cuttable=cuttable)
        count, branches = chosen.parallel, chosen.branches
        self._lanes = [Lane(index * (2 + branches), branches, count == 1) for index in range(count)]
        self._shared = Sharing(self._open, self._lanes)
        # llama.cpp deals the tokens of several sequences out anew when a model is recurrent. It puts
        # its own outputs back in order, but not the rows that an observer sees: one branch at a time.
        alone = self._hybrid and hidden
        self._method = Method(chosen.parts, chosen.ubatch, self._hybrid, self._window > 0, self._whole, alone)

    @property
    def _whole(self) -> bool:
        return self._kind[0] == "bidirectional"

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
        context, lane = self._context, self._lanes[0]
        run = Run(plan, context, lane, self.cache, self._method, cancelled, interrupt)
        evaluation = run.evaluation(exact=exact)
        padded = 0
        try:
            decode = next(evaluation)
            while True:
                padding = self._padding(decode)
                context.decode(decode.tokens, decode.positions, decode.sequences, decode.outputs, padding)
                padded += padding
                decode = evaluation.send(Outputs(rows=context.rows_of(len(decode.outputs))))
        except StopIteration as end:
            rows: Rows = end.value
            return replace(rows, padding=padded)
        except BaseException:
            lane.clear(context)
            raise

    def _padding(self, decode: Decode) -> int:
        # llama.cpp would deal the rows of a recurrent model out in calls of a few again.
        alone = self._method.whole or self._method.hybrid
        return 0 if alone else self.tuning.padding(len(decode.tokens), max(decode.positions))

    def start(self, plan: Plan, *, exact: bool, cancelled: Callable[[], bool]) -> Ticket:
        """Begin an evaluation beside those that run; `step` brings its rows. Fewer than `parallel` may run.

        Raises what `evaluate` raises, and ModelFailed while others run that read rows of another kind.
        """
        self._check(plan)
        if self._shared and self._shared.busy and self._kind != self._kind_of(plan):
            raise ModelFailed("requests that share decode calls must be read alike")
        self._prepare(plan)

        def begin(lane: Lane) -> Evaluation:
            run = Run(plan, self._context, lane, self.cache, self._method, cancelled, nothing)
            return run.evaluation(exact=exact)

        return self._sharing.start(begin)

    def step(self) -> list[tuple[Ticket, Rows | Exception]]:
        """One decode call for those that were started; the ones that ended with it, and how."""
        return self._sharing.step()

    @property
    def parallel(self) -> int:
        """How many evaluations may run side by side."""
        return self.tuning.parallel

    @property
    def _sharing(self) -> Sharing:
        assert self._shared is not None
        return self._shared

    def _check(self, plan: Plan) -> None:
        refuse_long(plan.prompts, self.limits.context)
        for prompt in plan.prompts:
            if not prompt.tokens or not prompt.reads or first_read(prompt) < prompt.shared:
                raise ModelFailed("a prompt must have tokens, and reads after its shared part only")

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
            "state_step": chosen.parts.step,
            "sequences": chosen.sequences,
            "parallel": chosen.parallel,
            "flash_attention": chosen.flash_attention,
            "kv_cache_type": chosen.kv_type,
            "openmp_wait": os.environ.get("OMP_WAIT_POLICY", "as the build has it"),
            "blas_threads": os.environ.get("OPENBLAS_NUM_THREADS", "as the build has it"),
            "gpu": self._gpu,
            "weights": (self._weights.type if self._weights else None) or "as stored",
            "reasons": {**chosen.reasons, **({"weights": self._weights.reason} if self._weights else {})},
            "cache_bytes": self.cache.size,
            "cache_budget": self.cache.budget,
        }

    def _close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    def close(self) -> None:
        self._close()
        if self._model:
            llama.llama_model_free(self._model)
            self._model = None
