"""kev end to end: a tiny random Qwen3.5 and pointer head in files, against transformers and PyTorch."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import head_models as hm  # noqa: E402
import torch_heads  # noqa: E402

from localdecide.core.errors import NumericalError  # noqa: E402
from tests.tiny import qwen35, reference  # noqa: E402

pytestmark = pytest.mark.reference

STATE = "plan: pro\ntags:\n  - a\n  - True\n  - k: 1.5\nné: Grüße <¦im_end¦> [MASK]\nz: "
ASKED = {"q": (hm.NOUL, ["no", "yes: it costs"]), "s": (hm.SCORE, ["mild", "a: 1", "- x\n- y"])}
TEMPERATURES = {"choice": 2.41, "noul": 1.7, "score": 0.6}


def texts(count):
    return [f"{name}: {text}" if text else name for name, text in hm.choice(count)["criteria"].items()]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kev")
    keys = {"qwen35.decision.type": "kev", "qwen35.embedding_length_out": 64}
    keys |= {f"qwen35.decision.temperature.{kind}": value for kind, value in TEMPERATURES.items()}
    backbone = qwen35.build(folder / "kev.gguf", seed=3, metadata=keys, max_position_embeddings=8192)
    head = torch_heads.scramble(torch_heads.Pointer(64, 32), 5, 1.2)
    file = hm.write_head(folder / "head.gguf", torch_heads.pointer_to_gguf(head), keys)
    return backbone, head, hm.load(backbone.path, file, num_ctx=8192)


def expected(tiny, instructions, options, *, broken=None):
    """Logits of the reference: delimiters by id, every text tokenised by itself."""
    backbone, head, _ = tiny
    delimiter = backbone.vocabulary.id
    tokens = [delimiter("<|fim_prefix|>"), *hm.tokenize(backbone.path, STATE), delimiter("<|fim_middle|>")]
    tokens += hm.tokenize(backbone.path, instructions)
    ends = []
    for option in options:
        tokens += [delimiter("<|box_start|>"), *hm.tokenize(backbone.path, option), delimiter("<|box_end|>")]
        ends.append(len(tokens) - 1)
    tokens.append(delimiter("<|fim_suffix|>"))
    if broken == "position":
        ends = [end - 1 for end in ends]
    hidden = torch.from_numpy(reference.forward(backbone, tokens)[0])
    with torch.no_grad():
        return head(hidden, ends).numpy(), len(tokens)


@pytest.mark.parametrize("count", [1, 2, 26, 27, 255])
def test_choice(tiny, count):
    """Choices of every size agree to 1e-4, token counts exactly."""
    logits, tokens = expected(tiny, "Which of them?", texts(count))
    reading = hm.decide(tiny[2], hm.STATE, {"c": hm.choice(count)}).readings["c"]
    assert hm.gap(reading, logits, TEMPERATURES["choice"]) < 1e-4
    assert reading.prompt_tokens == tokens


def test_noul_and_score_together(tiny):
    """Questions that share the state agree to 1e-4 with each alone; a noul's false side came first."""
    result = hm.decide(tiny[2], hm.STATE, {key: question for key, (question, _) in ASKED.items()})
    noul, tokens = expected(tiny, "Is the plan paid?", ASKED["q"][1])
    score, more = expected(tiny, "ask: How bad?", ASKED["s"][1])
    assert hm.gap(result.readings["q"], noul, TEMPERATURES["noul"], false_first=True) < 1e-4
    assert hm.gap(result.readings["s"], score, TEMPERATURES["score"]) < 1e-4
    assert result.input_tokens == tokens + more
    assert result.decoded_tokens < result.input_tokens
    assert not result.joint


def test_companions_change_nothing(tiny):
    """Seven questions of unlike lengths answer as each does alone: no row is taken for another's."""
    questions = {f"c{count}": hm.choice(count) for count in (2, 9, 5, 3)} | {"n": hm.NOUL, "s": hm.SCORE}
    questions["long"] = {"type": "noul", "instructions": "Is it so? " * 30, "criteria": {"false": "not at all"}}
    together = hm.decide(tiny[2], hm.STATE, questions).readings
    for key, question in questions.items():
        alone = hm.decide(tiny[2], hm.STATE, {key: question}).readings[key].probabilities
        assert together[key].probabilities == pytest.approx(alone, abs=1e-4)


def test_what_is_wrong_shows(tiny):
    """A wrong position, temperature or order moves an answer by far more than the tolerance."""
    reading = hm.decide(tiny[2], hm.STATE, {"c": hm.choice(5)}).readings["c"]
    logits, _ = expected(tiny, "Which of them?", texts(5))
    assert hm.gap(reading, logits, TEMPERATURES["choice"]) < 1e-4
    assert hm.gap(reading, logits, TEMPERATURES["noul"]) > 1e-2
    assert hm.gap(reading, logits[::-1], TEMPERATURES["choice"]) > 1e-2
    moved, _ = expected(tiny, "Which of them?", texts(5), broken="position")
    assert hm.gap(reading, moved, TEMPERATURES["choice"]) > 1e-2


def test_a_lost_output_norm_shows(tiny, tmp_path):
    """The pointer head has no norm of its own: it reads rows behind the backbone's, whose weight counts."""
    backbone, head, right = tiny
    norm = {"output_norm.weight": 0 * backbone.tensors["output_norm.weight"] + 1}
    keys = {"qwen35.decision.type": "kev", "qwen35.decision.temperature.choice": TEMPERATURES["choice"]}
    other = qwen35.build(tmp_path / "kev.gguf", seed=3, metadata=keys, tensors=norm, max_position_embeddings=8192)
    file = hm.write_head(tmp_path / "head.gguf", torch_heads.pointer_to_gguf(head), {})
    readings = [hm.decide(each, hm.STATE, {"c": hm.choice(5)}) for each in (right, hm.load(other.path, file))]
    logits, _ = expected(tiny, "Which of them?", texts(5))
    gaps = [hm.gap(each.readings["c"], logits, TEMPERATURES["choice"]) for each in readings]
    assert gaps[0] < 1e-4
    assert gaps[1] > 1e-2


def test_defaults_are_close(tiny, tmp_path):
    """With half-precision keys and values and flash attention, answers move by less than 1e-2."""
    backbone, head, _ = tiny
    file = hm.write_head(tmp_path / "head.gguf", torch_heads.pointer_to_gguf(head), {})
    model = hm.load(backbone.path, file, kv_cache_type="f16", flash_attention="auto")
    logits, _ = expected(tiny, "Which of them?", texts(27))
    reading = hm.decide(model, hm.STATE, {"c": hm.choice(27)}).readings["c"]
    assert hm.gap(reading, logits, TEMPERATURES["choice"]) < 1e-2


def test_a_head_that_does_not_belong_is_a_numerical_error(tiny, tmp_path):
    """A head of another width, or with a value that is no number, is found when the model is loaded."""
    other = torch_heads.pointer_to_gguf(torch_heads.scramble(torch_heads.Pointer(48, 16), 5))
    with pytest.raises(NumericalError, match="another base model"):
        hm.load(tiny[0].path, hm.write_head(tmp_path / "other.gguf", other, {}))
    broken = torch_heads.pointer_to_gguf(tiny[1])
    broken["cls.output.bias"] = broken["cls.output.bias"] * float("nan")
    with pytest.raises(NumericalError, match="not finite"):
        hm.load(tiny[0].path, hm.write_head(tmp_path / "broken.gguf", broken, {}))
