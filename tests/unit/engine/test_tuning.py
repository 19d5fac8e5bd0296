"""Sizes and threads of an engine: what a model or the environment sets wins, and each choice says why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from localdecide.engine import tuning
from localdecide.engine.tuning import Tuning, choose


def chosen(
    parameters: Mapping[str, Any] = {},
    *,
    environment: Mapping[str, str] = {},
    trained: int = 32768,
    **kind: bool,
) -> Tuning:
    flags = {"hybrid": False, "whole": False, "gpu": False} | kind
    return choose(parameters, environment, trained_context=trained, **flags)


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
    parts = chosen({"num_ctx": 900, "num_ubatch": 100, "num_batch": 50})

    assert (900, 900) == (whole.ubatch, whole.batch)
    assert (100, 100, 1100) == (parts.ubatch, parts.batch, parts.cells)


def test_flash_attention_is_off_on_cpus_unless_asked_for() -> None:
    """auto means off on a CPU and llama.cpp's own choice on a GPU; on and off are obeyed."""
    assert ["off", "auto", "on", "off"] == [
        chosen().flash_attention,
        chosen(gpu=True).flash_attention,
        chosen({"flash_attention": "on"}).flash_attention,
        chosen({"flash_attention": "off"}, gpu=True).flash_attention,
    ]
