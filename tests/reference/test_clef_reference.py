"""clef end to end: a tiny random Qwen3.5 and joint-schema head in files, against transformers and PyTorch."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
import head_models as hm  # noqa: E402
import torch_heads  # noqa: E402

from tests.tiny import qwen35, reference  # noqa: E402

pytestmark = pytest.mark.reference

KEYS = {"type": "clef", "routing_block_count": 2, "block_count": 2, "head_count": 4}
HEAD = "<|im_start|>system\nRead the complete state and schema. Decide every field jointly. Each answer must be exactly one of that field's allowed options.<|im_end|>\n<|im_start|>user\nSTATE:\n"  # noqa: E501
TAIL = "\n<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\nJOINT SCHEMA DECISIONS:"
FALSE = "The proposition is false or the answer is no."
ROWS = {"noul": 0, "choice": 1, "score": 2}


def dump(value):
    return (
        value
        if isinstance(value, str)
        else json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    )


def options(question):
    """Key and description in the prompt's order; None drops the description."""
    criteria = question["criteria"]
    if question["type"] == "choice":
        return sorted(criteria.items())
    if question["type"] == "score":
        return [(str(level), text) for level, text in enumerate(criteria)]
    return [("true", criteria["true"]), ("false", criteria.get("false") or FALSE)]


class Reference:
    def __init__(self, backbone, head):
        self.backbone, self.head = backbone, head
        self.embedding = torch.from_numpy(backbone.weights["lm_head.weight"])

    def rows(self, tokens):
        return torch.from_numpy(reference.forward(self.backbone, tokens)[0])

    def logits(self, state, questions, *, limit=None, shift=0):
        """Logits for every question in the prompt's order, and the number of tokens.

        limit: tokens of the whole prompt, the state gives way. shift: moves every option's span (a mistake).
        """
        tokens, fields, state_at = [], [], None

        def add(text, special=False):
            # The template's own text holds special tokens; a user's never does.
            start = len(tokens)
            tokens.extend(hm.tokenize(self.backbone.path, text, special=special))
            return (start, len(tokens))

        add(HEAD, special=True)
        state_at = add(dump(state))
        add("\n\nSCHEMA FIELDS:\n")
        for number, (key, question) in enumerate(questions.items(), 1):
            add(f"\nFIELD {number}\nID: {key}\nTYPE: {question['type']}\nINSTRUCTION: ")
            asked = add(dump(question["instructions"]))
            add("\nALLOWED OPTIONS:\n")
            spans = []
            for index, (name, text) in enumerate(options(question), 1):
                add(f"OPTION {index}: ")
                record = {"option_id": name} if text is None else {"option_id": name, "description": text}
                span = add(dump(record))
                spans.append((span, tokens[slice(*span)]))
                add("\n")
            add("END FIELD\n")
            fields.append((ROWS[question["type"]], asked, spans))
        add(TAIL, special=True)
        cut = max(0, len(tokens) - (limit or len(tokens)))
        del tokens[state_at[1] - cut : state_at[1]]
        move = -cut + shift
        fields = [
            (kind, (a - cut, b - cut), [((c + move, d + move), ids) for (c, d), ids in spans])
            for kind, (a, b), spans in fields
        ]
        hidden = self.rows(tokens)
        with torch.no_grad():
            return [row.numpy() for row in self.head(hidden, fields, self.embedding)], len(tokens)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("clef")
    head = torch_heads.scramble(torch_heads.Joint(64, 32, 2, 2, 4, 48), 9, 1.5)
    head.prior_logit_scale.data.fill_(1.5)
    head.joint_logit_scale.data.fill_(1.2)
    head.residual_gate.data.fill_(0.5)
    keys = {f"qwen35.decision.{key}": value for key, value in KEYS.items()}
    backbone = qwen35.build(folder / "clef.gguf", seed=4, metadata=keys, max_position_embeddings=16384)
    file = hm.write_head(folder / "head.gguf", torch_heads.joint_to_gguf(head), keys)
    return Reference(backbone, head), hm.load(backbone.path, file, num_ctx=16384), folder


def in_answer_order(question, logits):
    names = [name for name, _ in options(question)]
    keys = list(question["criteria"]) if question["type"] == "choice" else names
    return [logits[names.index(key)] for key in keys]


def gaps(tiny, questions, **options):
    logits, tokens = tiny[0].logits(hm.STATE, questions, **options)
    result = hm.decide(tiny[1], hm.STATE, questions)
    assert result.input_tokens == tokens
    assert result.joint
    return [
        hm.gap(result.readings[key], in_answer_order(question, row))
        for (key, question), row in zip(questions.items(), logits, strict=True)
    ]


@pytest.mark.parametrize("count", [1, 2, 26, 27, 255])
def test_choice(tiny, count):
    """Choices of every size agree to 1e-4, token counts exactly."""
    assert max(gaps(tiny, {"c": hm.choice(count)})) < 1e-4


ALL = {
    "noul": hm.NOUL,
    "c": hm.choice(5),
    "s": hm.SCORE,
    "again": {"type": "noul", "instructions": "?", "criteria": {}},
}
ALL["again"]["criteria"] = {"true": "yes", "false": None}


def test_all_types_together(tiny):
    """Four questions in one prompt agree to 1e-4 each."""
    assert max(gaps(tiny, ALL)) < 1e-4


def test_companions_matter(tiny):
    """A question alone has other probabilities than beside others: the head is joint."""
    alone = hm.decide(tiny[1], hm.STATE, {"c": ALL["c"]}).readings["c"].probabilities
    beside = hm.decide(tiny[1], hm.STATE, ALL).readings["c"].probabilities
    assert max(abs(a - b) for a, b in zip(alone, beside, strict=True)) > 1e-2


def test_what_is_wrong_shows(tiny):
    """Spans that are one token off, or options in the request's order, move an answer far beyond the tolerance."""
    assert max(gaps(tiny, ALL, shift=1)) > 1e-2
    logits, _ = tiny[0].logits(hm.STATE, ALL)
    reading = hm.decide(tiny[1], hm.STATE, ALL).readings["c"]
    assert hm.gap(reading, logits[1]) > 1e-2


def test_a_long_state_is_cut(tiny):
    """The end of a state that does not fit is cut, the answer says so, and agrees with the reference's cut."""
    backbone, _, folder = tiny[0].backbone, None, tiny[2]
    model = hm.load(backbone.path, folder / "head.gguf", num_ctx=600)
    state = "Once upon a time, " * 300
    logits, tokens = tiny[0].logits(state, {"c": hm.choice(5)}, limit=600)
    reading = hm.decide(model, state, {"c": hm.choice(5)}).readings["c"]
    assert (reading.prompt_tokens, tokens) == (600, 600)
    assert reading.truncated > 500
    assert hm.gap(reading, in_answer_order(hm.choice(5), logits[0])) < 1e-4


def test_ollamas_layout(tiny):
    """The checkpoint's tensor names behind `clef.` and Ollama's keys give the same answers bit for bit."""
    reference_, product, folder = tiny
    arrays = {f"clef.{name}": array for name, array in torch_heads.arrays(reference_.head).items()}
    keys = {"qwen35.decision.type": "clef", "qwen35.decision.heads": 4, "qwen35.decision.layers": 2}
    file = hm.write_head(folder / "ollama.gguf", arrays, keys)
    backbone = qwen35.build(folder / "plain.gguf", seed=4, metadata=keys, max_position_embeddings=16384)
    other = hm.load(backbone.path, file, num_ctx=16384)
    assert hm.decide(product, hm.STATE, ALL).readings == hm.decide(other, hm.STATE, ALL).readings


def test_defaults_are_close(tiny):
    """With half-precision keys and values and flash attention, answers move by less than 1e-2."""
    reference_, _, folder = tiny
    model = hm.load(reference_.backbone.path, folder / "head.gguf", kv_cache_type="f16", flash_attention="auto")
    logits, _ = reference_.logits(hm.STATE, ALL)
    result = hm.decide(model, hm.STATE, ALL)
    for (key, question), row in zip(ALL.items(), logits, strict=True):
        assert hm.gap(result.readings[key], in_answer_order(question, row)) < 1e-2
