"""The engine that only tokenises: a vocabulary under an architecture that llama.cpp does not know."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from localdecide.core.errors import BadModelFile, Cancelled, ModelFailed, PromptTooLong
from localdecide.core.plan import Hidden, Plan, Prompt
from localdecide.engine.weights import start_backend
from localdecide.engine.words import WordEngine, architecture


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("words") / "m.gguf"
    writer = gguf.GGUFWriter(str(path), "deberta-v2")
    writer.add_context_length(8)
    writer.add_embedding_length(4)
    tokens = ["[PAD]", "[UNK]", "[SEP]", "[L]", "▁hello", "▁", "h", "i"]
    writer.add_tokenizer_model("t5")
    writer.add_token_list(tokens)
    writer.add_token_scores([0.0] * 4 + [-1.0] + [-5.0] * 3)
    writer.add_token_types([3, 2, 3, 3, 1, 1, 1, 1])
    writer.add_unk_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_space_prefix(True)
    writer.add_add_eos_token(False)
    writer.add_tensor("token_embd.weight", np.ones((8, 4), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    start_backend()
    return path


def test_it_reads_tokenizer_and_header(path):
    """Words, special tokens, sizes and the file's own architecture."""
    engine = WordEngine(str(path), {})
    assert engine.vocabulary.tokenize("hello hi") == [4, 5, 6, 7]
    assert engine.vocabulary.specials["[L]"].id == 3
    assert engine.metadata["general.architecture"] == architecture(path) == "deberta-v2"
    assert (engine.limits.context, engine.limits.width) == (8, 4)
    engine.close()


def test_it_evaluates_nothing(path):
    """A plan without reads costs nothing but its checks; reads are another engine's work."""
    engine = WordEngine(str(path), {})
    rows = engine.evaluate(Plan((Prompt("q", (4, 5), ()),), "bidirectional"))
    assert (list(rows.values), rows.decoded) == ([[]], 2)
    with pytest.raises(ModelFailed, match="computes nothing"):
        engine.evaluate(Plan((Prompt("q", (4, 5), (Hidden((0,)),)),)))
    with pytest.raises(PromptTooLong, match="has 9 tokens; the model's context is 8"):
        engine.evaluate(Plan((Prompt("q", (4,) * 9, ()),)))
    with pytest.raises(Cancelled):
        engine.evaluate(Plan((Prompt("q", (4,), ()),)), cancelled=lambda: True)
    with pytest.raises(ModelFailed):
        engine.output_rows([1])
    engine.close()


def test_a_smaller_context_may_be_asked_for(path):
    """PARAMETER num_ctx makes the limit smaller, never larger than in training."""
    assert WordEngine(str(path), {"num_ctx": 4}).limits.context == 4
    assert WordEngine(str(path), {"num_ctx": 4096}).limits.context == 8


def test_a_file_without_a_tokenizer_is_refused(tmp_path):
    """A file that llama.cpp cannot read is a bad model file."""
    broken = tmp_path / "x.gguf"
    broken.write_bytes(b"GGUF" + bytes(100))
    start_backend()
    assert architecture(broken) == ""
    with pytest.raises(BadModelFile, match="could not read the tokenizer"):
        WordEngine(str(broken), {})
