"""clef-omni (text): a tiny random Qwen3 with experts, converted with a joint head, against transformers and PyTorch."""

from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
import head_models as hm  # noqa: E402
import torch_heads  # noqa: E402
from test_clef_reference import ALL, Reference, in_answer_order  # noqa: E402

from gguf_convert.__main__ import main  # noqa: E402
from tests.tiny import qwen3  # noqa: E402
from tests.tiny.checkpoint import save, write_safetensors  # noqa: E402
from tests.tiny.model import Random  # noqa: E402

pytestmark = pytest.mark.reference

EXPERTS = {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 48, "norm_topk_prob": True}


class Omni(Reference):
    """The reference of clef over another network."""

    def __init__(self, backbone, head, network):
        super().__init__(backbone, head)
        self.network = network

    def rows(self, tokens):
        with torch.inference_mode():
            return self.network.model(torch.tensor([tokens]), use_cache=False).last_hidden_state[0]


def converted(folder):
    """The checkpoint as published, converted to `folder`/out; the parts it was made of."""
    dense = qwen3.build(folder / "dense.gguf", seed=11)
    config = dense.config | EXPERTS
    weights = {name: array for name, array in dense.weights.items() if ".mlp." not in name}
    draw = Random(12)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}.mlp."
        weights[f"{at}gate.weight"] = draw.matrix(6, 64, gain=3)
        for expert in range(6):
            for part, shape in (("gate", (48, 64)), ("up", (48, 64)), ("down", (64, 48))):
                weights[f"{at}experts.{expert}.{part}_proj.weight"] = draw.matrix(*shape)
    published = folder / "clef-omni"
    save(dense, published)
    names = {f"thinker.{name}": array for name, array in weights.items()}
    names |= {"talker.x.weight": draw.matrix(2, 2), "thinker.visual.y.weight": draw.matrix(2, 2)}
    write_safetensors(published / "model.safetensors", names)
    settings = json.loads((published / "config.json").read_text())
    text = settings | EXPERTS | {"model_type": "qwen3_omni_moe_text"}
    omni = {"model_type": "qwen3_omni_moe", "thinker_config": {"text_config": text}}
    (published / "config.json").write_text(json.dumps(omni))
    head = torch_heads.scramble(torch_heads.Joint(64, 32, 1, 2, 4, 48), 9, 1.5)
    head.prior_logit_scale.data.fill_(1.5)
    sizes = {"hidden_size": 64, "width": 32, "routing_layers": 1, "layers": 2, "heads": 4, "feedforward": 48}
    (published / "joint_head_config.json").write_text(json.dumps(sizes))
    write_safetensors(published / "joint_head.safetensors", torch_heads.arrays(head))
    assert main([str(published), "--out", str(folder / "out"), "--type", "F32"]) == 0
    return dense, head, config, weights


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("omni")
    dense, head, config, weights = converted(folder)
    return Omni(dense, head, network(config, weights)), hm.load(*sorted_files(folder / "out"), num_ctx=4096), folder


def sorted_files(folder):
    return folder / "clef-omni.gguf", folder / "clef-omni-head.gguf"


def network(config, weights):
    """transformers' class; it keeps a layer's experts stacked, gate above up."""
    drop = ("architectures", "model_type", "rope_theta")
    settings = {key: value for key, value in config.items() if key not in drop}
    settings["rope_parameters"] = {"rope_type": "default", "rope_theta": config["rope_theta"]}
    made = transformers.Qwen3MoeForCausalLM(transformers.Qwen3MoeConfig(**settings)).float().eval()
    tensors = {name: torch.from_numpy(array) for name, array in weights.items() if ".experts." not in name}
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}.mlp.experts."

        def all_of(part, at=at):
            return torch.stack([torch.from_numpy(weights[f"{at}{n}.{part}_proj.weight"]) for n in range(6)])

        tensors[f"{at}gate_up_proj"] = torch.cat([all_of("gate"), all_of("up")], dim=1)
        tensors[f"{at}down_proj"] = all_of("down")
    made.load_state_dict(tensors, strict=True)
    return made


def test_all_types_together(tiny):
    """Four questions through experts, joint head and conversion agree to 1e-4 each."""
    logits, tokens = tiny[0].logits(hm.STATE, ALL)
    result = hm.decide(tiny[1], hm.STATE, ALL)
    assert result.input_tokens == tokens
    for (key, question), row in zip(ALL.items(), logits, strict=True):
        assert hm.gap(result.readings[key], in_answer_order(question, row)) < 1e-4


@pytest.mark.parametrize("count", [1, 2, 26, 27, 255])
def test_choice(tiny, count):
    """Choices of every size agree to 1e-4, token counts exactly."""
    question = hm.choice(count)
    logits, tokens = tiny[0].logits(hm.STATE, {"c": question})
    wide = hm.load(*sorted_files(tiny[2] / "out"), num_ctx=16384) if count == 255 else tiny[1]
    result = hm.decide(wide, hm.STATE, {"c": question})
    assert result.input_tokens == tokens
    assert hm.gap(result.readings["c"], in_answer_order(question, logits[0])) < 1e-4


def test_what_is_wrong_shows(tiny):
    """Spans one token off, and options in the request's order, move an answer far beyond the tolerance."""
    readings = hm.decide(tiny[1], hm.STATE, ALL).readings
    moved, _ = tiny[0].logits(hm.STATE, ALL, shift=1)
    right, _ = tiny[0].logits(hm.STATE, ALL)
    gaps = [hm.gap(readings[key], in_answer_order(ALL[key], row)) for key, row in zip(ALL, moved, strict=True)]
    assert max(gaps) > 1e-2
    assert hm.gap(readings["c"], right[1]) > 1e-2


def test_it_is_read_as_clef_with_its_own_length(tiny):
    """The converted file says what it is, and how long its prompts were in training."""
    described = tiny[1].describe()
    assert (described["family"], described["joint"]) == ("clef", True)
    assert "PARAMETER num_ctx 64000" in (tiny[2] / "out" / "Modelfile").read_text()
