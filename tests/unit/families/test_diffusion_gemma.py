"""DiffusionGemma: the refusal, and the measurement that it is true of the installed llama.cpp."""

from __future__ import annotations

from pathlib import Path

import llama_cpp
import numpy as np
import pytest
from word_vocabulary import WordVocabulary, model

from localdecide.core.decision import Decision
from localdecide.core.errors import BadModelFile, NotSupported
from localdecide.core.model import ModelSpec
from localdecide.core.questions import Noul
from localdecide.engine.weights import open_model, start_backend
from localdecide.families import diffusion_gemma
from localdecide.families.registry import family_named
from localdecide.runner.loaded import LoadedModel
from tests.tiny import qwen3
from tests.tiny.model import write
from tests.tiny.vocabulary import QWEN, vocabulary

NAMES = ("diffusion-gemma", "diffusion_gemma", "diffusiongemma", "gemma-diffusion", "gemma4-diffusion", "dgemma")


def test_it_is_refused_with_what_is_missing():
    """A Modelfile's FAMILY diffusion-gemma gives one sentence that names the canvas and the graph."""
    family = family_named("diffusion-gemma")
    with pytest.raises(NotSupported, match=r"no graph for its architecture .*canvas of 16 tokens"):
        family.plan(Decision("x", {"q": Noul("?")}), model(WordVocabulary(())))
    assert "canvas" in diffusion_gemma.describe(model(WordVocabulary(())))["missing"]


@pytest.mark.parametrize("name", NAMES)
def test_llama_cpp_does_not_know_the_architecture(name, tmp_path):
    """Every plausible name of the architecture is unknown to the installed llama.cpp."""
    path = qwen3.build(tmp_path / "m.gguf", hidden_size=32, num_hidden_layers=1).path
    # Only the name is changed; what it moves behind it is never reached.
    data = path.read_bytes()
    key = b"general.architecture"
    at = data.index(key) + len(key) + 4
    old = int.from_bytes(data[at : at + 8], "little")
    renamed = data[:at] + len(name).to_bytes(8, "little") + name.encode() + data[at + 8 + old :]
    path.write_bytes(renamed)
    start_backend()
    with pytest.raises(BadModelFile, match=f"does not know the architecture '{name}'"):
        open_model(str(path), {})


@pytest.mark.parametrize("describe", [True, False], ids=["show", "run"])
@pytest.mark.parametrize(
    ("family", "name"), [("diffusion-gemma", "qwen3"), ("diffusion-gemma", "dgemma"), (None, "diffusion-gemma")]
)
def test_it_is_refused_before_the_file_is_opened(family, name, describe, tmp_path):
    """By FAMILY or by the architecture's name, the one sentence stands where llama.cpp's would be."""
    words = vocabulary("qwen2", QWEN, eos="<|im_end|>", pad="<|endoftext|>")
    path = write(tmp_path / "m.gguf", name, {"x": np.zeros((4, 4), np.float32)}, {}, words)
    spec = ModelSpec("m:latest", str(path), family=family)
    with pytest.raises(NotSupported) as caught:
        LoadedModel(spec, {"describe": describe}, lambda fraction: None)
    assert diffusion_gemma.MISSING == str(caught.value)


def test_no_diffusion_graph_is_gemmas():
    """The library's own diffusion models are others: its binary names none of Gemma's kind."""
    library = next((Path(llama_cpp.__file__).parent / "lib").glob("*llama.*"))
    binary = library.read_bytes()
    assert b"llada" in binary
    assert b"diffusion-gemma" not in binary
    assert b"diffusion_gemma" not in binary
