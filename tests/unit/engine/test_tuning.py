"""Sizes and threads of an engine: what a model or the environment sets wins, and each choice says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from localdecide.engine import tuning
from localdecide.engine.tuning import Tuning, choose


def chosen(
    parameters: Mapping[str, Any] = {},
    *,
    environment: Mapping[str, str] = {},
    trained: int = 32768,
    parallel: int = 1,
    kernels: Any = None,
    **kind: bool,
) -> Tuning:
    flags = {"hybrid": False, "whole": False, "gpu": False} | kind
    return choose(parameters, environment, trained_context=trained, parallel=parallel, kernels=kernels, **flags)


def test_threads_are_the_models_then_the_settings_then_the_cores() -> None:
    """PARAMETER num_thread, then LOCALDECIDE_NUM_THREADS, then the cores this process may use."""
    both = chosen({"num_thread": 3}, environment={"LOCALDECIDE_NUM_THREADS": "7"})
    setting = chosen(environment={"LOCALDECIDE_NUM_THREADS": "7"})
    default = chosen(environment={"LOCALDECIDE_NUM_THREADS": "0"})

    assert (3, "PARAMETER num_thread") == (both.threads, both.reasons["num_thread"])
    assert (7, "LOCALDECIDE_NUM_THREADS") == (setting.threads, setting.reasons["num_thread"])
    assert 1 <= default.threads <= tuning.usable_cpus()


def test_contexts_are_as_given_or_trained_and_no_larger_than_the_default() -> None:
    """A number in the Modelfile wins; a short model keeps its own; a long one gets the default."""
    assert [1000, 512, 4096, 4096] == [
        chosen({"num_ctx": 1000}).context,
        chosen(trained=512).context,
        chosen().context,
        chosen(trained=0).context,
    ]


def test_a_prompt_that_is_read_whole_fits_one_ubatch() -> None:
    """llama.cpp aborts on a bidirectional prompt over n_ubatch, whatever the Modelfile says."""
    whole = chosen({"num_ctx": 900, "num_ubatch": 100}, whole=True)
    parts = chosen({"num_ctx": 1000, "num_ubatch": 100, "num_batch": 50})

    assert (900, 900) == (whole.ubatch, whole.batch)
    assert (100, 100, 1512) == (parts.ubatch, parts.batch, parts.cells)


def sizes(found: Tuning) -> tuple[int, int]:
    return found.parts.step, found.parts.least


@dataclass(frozen=True)
class Measured:
    """Kernels as a machine might have them."""

    threads: int = 5
    flash_attention: bool = True
    ubatch: int = 64
    doubling: int = 1000
    reasons: Mapping[str, str] = field(
        default_factory=lambda: {"num_thread": "t", "flash_attention": "f", "num_ubatch": "u"}
    )

    def padding(self, rows: int, depth: int) -> int:
        return rows + depth


def test_what_was_measured_decides_where_nothing_was_said() -> None:
    """Threads, the state's step and flash attention follow the measurement, with its reasons."""
    kernels = Measured()
    found = chosen(kernels=kernels)
    said = chosen({"num_thread": 2, "num_ubatch": 256, "flash_attention": "off"}, kernels=kernels)

    assert (5, 64, 64, 256, "on") == (found.threads, *sizes(found), found.ubatch, found.flash_attention)
    assert ("t", "u", "f") == tuple(found.reasons[name] for name in ("num_thread", "num_ubatch", "flash_attention"))
    assert (2, 256, 0, 256, "off") == (said.threads, *sizes(said), said.ubatch, said.flash_attention)


def test_parts_get_shorter_only_where_a_cpu_reads_them() -> None:
    """Where nothing was measured, on a GPU, and for prompts that are read in one piece, they are alike."""
    kernels = Measured()
    kinds: list[dict[str, Any]] = [{"kernels": kernels}, {}, {"gpu": True}, {"kernels": kernels, "whole": True}]

    assert [1000, 0, 0, 0] == [chosen(**kind).parts.doubling for kind in kinds]


def test_rows_are_padded_only_for_flash_attention_on_cpus() -> None:
    """Without it, or where nothing was measured, a call has the rows it has."""
    assert 0 == chosen({"num_ubatch": 6}, kernels=Measured()).padding(3, 4)
    assert [7, 0, 0] == [
        each.padding(3, 4)
        for each in (chosen(kernels=Measured()), chosen(kernels=Measured(flash_attention=False)), chosen(gpu=True))
    ]


def test_a_state_never_leaves_a_part_over_the_ubatch() -> None:
    """The last part may be longer than the step by less than `least`: the ubatch of a Modelfile holds both."""
    found = [chosen({"num_ubatch": size}, kernels=Measured()) for size in (32, 64, 100, 128, 256, 1000)]

    assert [(32, 0), (64, 0), (100, 0), (64, 64), (192, 64), (936, 64)] == [sizes(each) for each in found]
    assert all(each.parts.step + max(0, each.parts.least - 1) <= each.ubatch for each in found)


def test_flash_attention_is_obeyed_and_llama_cpps_own_choice_on_a_gpu() -> None:
    """on and off are obeyed; a GPU build chooses itself; branches of recurrent models are short."""
    assert ["auto", "on", "off", "off"] == [
        chosen(gpu=True).flash_attention,
        chosen({"flash_attention": "on"}).flash_attention,
        chosen({"flash_attention": "off"}, gpu=True).flash_attention,
        chosen(hybrid=True, kernels=Measured()).flash_attention,
    ]


def test_requests_that_share_decode_calls_have_sequences_and_cells_each() -> None:
    """Within llama.cpp's 256 sequences; recurrent, windowed and whole-reading models share nothing."""
    one, four, many = (chosen({"num_ctx": 1000}, parallel=count) for count in (1, 4, 16))

    assert (1512, 64, 61) == (one.cells, one.sequences, one.branches)
    assert (4 * 1512, 253, 61, 4 * one.ubatch) == (four.cells, four.sequences, four.branches, four.batch)
    assert (241, 13) == (many.sequences, many.branches)
    assert [1, 1, 1] == [chosen(parallel=4, **{kind: True}).parallel for kind in ("hybrid", "whole", "windowed")]
