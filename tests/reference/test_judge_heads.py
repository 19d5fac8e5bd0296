"""Upstream's own server answers the same requests over files with heads: answers and token counts agree."""

from __future__ import annotations

from typing import Any

import head_models as hm
import pytest
from head_files import BUILDERS, CONTEXT, laya_files

from tests import awkward
from tests.reference.judge.judge import Judge, available

pytestmark = [
    pytest.mark.slow,
    pytest.mark.reference,
    pytest.mark.skipif(not available(), reason="the judge's package, xllamacpp, is not installed"),
]

# What the judge refuses and we do not: clef's spans must hold tokens, and here the id stands in.
REFUSED = {"clef": {"empty instructions"}}
# laya's encoder has ggml's half-precision GELU on both sides: differences of 1e-7 become steps of 1e-4.
TOLERANCES = {"kev": 1e-5, "clef": 1e-5, "laya": 2e-3, "julia": 2e-3, "lfm2-d1-omni": 1e-5}


def probabilities(answer: dict[str, Any], keys: tuple[str, ...]) -> list[float]:
    """The judge's distribution by our order; a noul's true side alone."""
    return [answer["noul"]] if answer["type"] == "noul" else [answer["probabilities"][key] for key in keys]


def compare(files, names, *, exact=True, **options):
    """The largest difference of a probability over all requests; token counts must agree."""
    parameters = {} if exact else {"kv_cache_type": "f16", "flash_attention": "auto"}
    ours = hm.load(files.backbone, files.head, num_ctx=CONTEXT, num_thread=1, **parameters)
    worst, compared = 0.0, 0
    with Judge(files.whole, context=CONTEXT, ubatch=CONTEXT, exact=exact) as judge:
        for name in names:
            status, reply = judge.ask(awkward.body(name))
            if name in REFUSED.get(files.family, ()):
                assert status == 400
                continue
            assert status == 200, (name, reply)
            result = ours.decide(awkward.decision(name), lambda: False)
            assert reply["usage"]["input_tokens"] == result.input_tokens, name
            for key, answer in reply["answers"].items():
                theirs = probabilities(answer, awkward.decision(name).questions[key].keys)
                mine = result.readings[key].probabilities
                worst = max(worst, *(abs(a - b) for a, b in zip(theirs, mine, strict=False)))
                compared += 1
    assert compared >= 20
    return worst


@pytest.mark.parametrize("family", BUILDERS)
def test_answers_like_upstream(family, tmp_path):
    """Every awkward request: same token counts, same probabilities, float32 cache and no flash attention."""
    assert compare(BUILDERS[family](tmp_path), awkward.REQUESTS) <= TOLERANCES[family]


@pytest.mark.parametrize("family", BUILDERS)
def test_defaults_are_close_to_upstream(family, tmp_path):
    """At the defaults of both, half precision and flash attention move answers by less than 1e-2."""
    assert compare(BUILDERS[family](tmp_path), awkward.REQUESTS, exact=False) <= 1e-2


def test_laya_without_the_table(tmp_path):
    """With SiLU in place of GELU, which has no table, laya agrees to 1e-5: the rest of the arithmetic is right."""
    assert compare(laya_files(tmp_path, activation="silu"), awkward.REQUESTS) <= 1e-5


def test_a_name_changes_the_tokenizer(tmp_path):
    """A file named after modern-bert strips spaces left of [MASK], there and here."""
    assert compare(laya_files(tmp_path, name="My Modern-BERT"), awkward.REQUESTS) <= TOLERANCES["laya"]


def test_kev_escapes_what_looks_like_a_token(tmp_path):
    """kev's own escapes make forged delimiters harmless; what remains are tokens the judge also reads as text."""
    files = BUILDERS["kev"](tmp_path)
    ours = hm.load(files.backbone, files.head, num_ctx=CONTEXT, num_thread=1)
    with Judge(files.whole, context=CONTEXT, ubatch=CONTEXT) as judge:
        status, reply = judge.ask(awkward.body("other families' marks"))
    result = ours.decide(awkward.decision("other families' marks"), lambda: False)
    assert status == 200
    assert reply["usage"]["input_tokens"] == result.input_tokens
    for key, answer in reply["answers"].items():
        assert result.readings[key].probabilities[0] == pytest.approx(answer["noul"], abs=1e-5)
