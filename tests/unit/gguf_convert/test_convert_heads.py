"""Decision checkpoints with heads: the converted files answer like files written directly."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from checkpoints import arrays, converted, keys, load, write_json, write_safetensors  # noqa: E402
from test_convert_backbones import DECISION  # noqa: E402

from gguf_convert.__main__ import main  # noqa: E402
from tests.tiny import build, checkpoint, lfm2, modern_bert  # noqa: E402
from tests.tiny.model import Random  # noqa: E402

pytestmark = pytest.mark.reference


def torch_heads():
    import importlib.util
    from pathlib import Path

    path = Path(__file__).parents[2] / "reference" / "torch_heads.py"
    spec = importlib.util.spec_from_file_location("torch_heads", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


heads = torch_heads()


def decide(model, head, family=None):
    result = load(model, head, family).decide(DECISION, lambda: False)
    return {key: reading.probabilities for key, reading in result.readings.items()}


def same_arrays(expected, actual):
    assert expected.keys() == actual.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(np.asarray(array).reshape(actual[name].shape), actual[name], err_msg=name)


def test_kev(tmp_path):
    """An adapter merges into its base (W + alpha/r B A), the head's q and k become one, its temperature counts."""
    base = build("qwen35", tmp_path / "base.gguf", seed=2)
    base_folder = checkpoint.save(base, tmp_path / "base")
    folder = tmp_path / "Kev-0.1B"
    folder.mkdir()
    draw = Random(7)
    targets = ["layers.0.linear_attn.in_proj_qkv", "layers.3.self_attn.q_proj", "layers.1.mlp.down_proj"]
    pairs, merged = {}, dict(base.weights)
    for target in targets:
        rows, columns = base.weights[f"model.{target}.weight"].shape
        a, b = draw.matrix(4, columns), draw.matrix(rows, 4)
        merged[f"model.{target}.weight"] = base.weights[f"model.{target}.weight"] + np.float32(2.0) * (b @ a)
        pairs[f"base_model.model.model.{target}.lora_A.weight"] = a
        pairs[f"base_model.model.model.{target}.lora_B.weight"] = b
    write_safetensors(folder / "adapter_model.safetensors", pairs)
    write_json(folder / "adapter_config.json", {"r": 4, "lora_alpha": 8, "peft_type": "LORA"})
    write_json(folder / "training_config.json", {"args": {"head_dim": 16}})
    module = heads.scramble(heads.Pointer(64, 16), 5)
    state = {name: tensor.to(torch.bfloat16) for name, tensor in module.state_dict().items()}
    torch.save({"head": state, "head_dim": 16, "temperature": 2.35, "special_embeddings": False}, folder / "head.pt")
    model, head = converted(folder, tmp_path / "out", base_folder)
    from tests.tiny import qwen35

    expected = dict(qwen35.gguf_tensor(name, array, base.config) for name, array in merged.items())
    for name, array in arrays(model).items():
        np.testing.assert_allclose(expected[name], array, rtol=1e-5, atol=1e-5, err_msg=name)
    same_arrays(
        {n: torch.from_numpy(a).to(torch.bfloat16).float().numpy() for n, a in heads.pointer_to_gguf(module).items()},
        arrays(head),
    )
    assert keys(model)["qwen35.decision.type"] == "kev"
    assert keys(model)["qwen35.decision.temperature.noul"] == pytest.approx(2.35)
    assert all(sum(values) == pytest.approx(1) for values in decide(model, head).values())


def test_clef(tmp_path):
    """The joint head's tensors get upstream's names, its sizes become keys, its scalars are transformed."""
    base = build("qwen35", tmp_path / "base.gguf", seed=2)
    folder = checkpoint.save(base, tmp_path / "clef-flash")
    module = heads.scramble(heads.Joint(64, 32, 2, 1, 4, 48), 9)
    module.prior_logit_scale.data.fill_(5.0)  # over the logarithm of 100
    module.residual_gate.data.fill_(0.5)
    sizes = {"hidden_size": 64, "width": 32, "routing_layers": 2, "layers": 1, "heads": 4, "feedforward": 48}
    write_json(folder / "joint_head_config.json", sizes)
    write_safetensors(folder / "joint_head.safetensors", heads.arrays(module))
    model, head = converted(folder, tmp_path / "out")
    expected, actual = heads.joint_to_gguf(module), arrays(head)
    assert expected.keys() == actual.keys()
    for name, array in expected.items():
        np.testing.assert_allclose(array.reshape(actual[name].shape), actual[name], rtol=1e-6, err_msg=name)
    found = keys(model)
    assert [found[f"qwen35.decision.{key}"] for key in ("routing_block_count", "block_count", "head_count")] == [
        2,
        1,
        4,
    ]
    assert all(sum(values) == pytest.approx(1) for values in decide(model, head).values())
    assert "PARAMETER num_ctx 16384" in (tmp_path / "out" / "Modelfile").read_text()


@pytest.mark.parametrize("julia", [False, True])
def test_laya(julia, tmp_path):
    """encoder/, tokenizer/ and head of one checkpoint; budgets and temperatures by bucket; Julia-1's wording."""
    encoder = modern_bert.build(tmp_path / "encoder.gguf", seed=3)
    folder = tmp_path / ("julia-1" if julia else "laya")
    checkpoint.save(encoder, folder / "encoder")
    checkpoint.write_tokenizer(encoder.vocabulary, folder / "encoder")
    (folder / "tokenizer").mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / "encoder" / name).rename(folder / "tokenizer" / name)
    config = json.loads((folder / "tokenizer" / "tokenizer_config.json").read_text())
    config |= {"cls_token": "[CLS]", "sep_token": "[SEP]", "mask_token": {"content": "[MASK]"}}
    write_json(folder / "tokenizer" / "tokenizer_config.json", config)
    module = heads.scramble(heads.Marker(64, 4, 2), 12)
    tensors = {f"encoder.{name}": array for name, array in encoder.weights.items()}
    tensors |= heads.arrays(module) | {
        "act_head.0.weight": np.ones((4, 4), np.float32),
        "temperature": np.ones(3, np.float32),
    }
    write_safetensors(folder / "model.safetensors", tensors)
    settings = {"head_layers": 2, "head_max_len": 100, "max_len": 300}
    settings |= {
        "temperature": [2, 1, 0.5],
        "temperature_by_options": {"choice:3-5": 1.5, "choice:11+": 9, "score:2": 0.1},
    }
    if julia:
        settings = {"head_layers": 2, "architecture": "JuliaDecisionModel"}
    write_json(folder / ("julia_config.json" if julia else "rl_agent_config.json"), settings)
    model, head = converted(folder, tmp_path / "out")
    same_arrays(encoder.tensors, arrays(model))
    same_arrays(heads.marker_to_gguf(module, 3), arrays(head))
    found = {
        key.removeprefix("modern-bert.decision."): value for key, value in keys(model).items() if ".decision." in key
    }
    if julia:
        assert found == {"type": "laya", "block_count": 2, "max_head_tokens": 256}
    else:
        temperatures = {"choice": 2.0, "score": 1.0, "noul": 0.5, "choice.3_5": 1.5, "choice.11": 5.0, "score.2": 0.5}
        expected = {"type": "laya", "block_count": 2, "max_head_tokens": 100, "max_length": 300}
        assert found == expected | {f"temperature.{name}": value for name, value in temperatures.items()}
    assert all(sum(values) == pytest.approx(1) for values in decide(model, head).values())
    assert ("level {{" in keys(model)["tokenizer.chat_template.systemone"]) is not julia


def test_mmbert_is_marked(tmp_path):
    """A tokenizer of plain characters with bytes to fall back on is loaded as the nearest one, and marked."""
    from gguf_convert.checkpoint import Checkpoint
    from gguf_convert.tokenizer import BYTE, NORMAL, tokenizer_keys

    vocabulary = {"<pad>": 0, "<0x00>": 1, "▁a": 2, "b": 3}
    added = [{"id": 0, "content": "<pad>", "special": True}, {"id": 4, "content": "  ", "special": False}]
    model = {"type": "BPE", "vocab": vocabulary, "merges": [["▁", "a"]], "byte_fallback": True}
    write_json(tmp_path / "tokenizer.json", {"model": model, "added_tokens": added})
    found = tokenizer_keys(Checkpoint(tmp_path), "mmbert", 6)
    assert found["tokenizer.ggml.tokens"] == ["<pad>", "<0x00>", "▁a", "b", "▁▁", "[PAD5]"]
    assert found["tokenizer.ggml.token_type"] == [3, BYTE, NORMAL, NORMAL, NORMAL, 5]
    assert found["tokenizer.ggml.merges"] == ["▁ a"]


def test_d1_omni(tmp_path):
    """A bidirectional LFM2 with its head under head.head; its parts for pictures and sounds are left out."""
    encoder = lfm2.build(tmp_path / "encoder.gguf", seed=3, causal=False)
    folder = checkpoint.save(encoder, tmp_path / "d1-omni")
    module = heads.scramble(heads.Marker(64, 4, 2), 12)
    tensors = {f"encoder.{name.removeprefix('model.')}": array for name, array in encoder.weights.items()}
    tensors |= {f"head.{name}": array for name, array in heads.arrays(module).items()}
    tensors |= {"vision.x.weight": np.ones((2, 2), np.float32), "audio.y.weight": np.ones((2, 2), np.float32)}
    write_safetensors(folder / "model.safetensors", tensors)
    config = json.loads((folder / "config.json").read_text())
    whole = {"model_type": "d1_omni", "text_config": config, "head_layers": 2, "temperatures": {"choice:3-5": 1.5}}
    write_json(folder / "config.json", whole | {"max_length": 16384})
    tokenizer = json.loads((folder / "tokenizer_config.json").read_text()) | {"mask_token": "<|mask|>"}
    write_json(folder / "tokenizer_config.json", tokenizer)
    model, head = converted(folder, tmp_path / "out")
    same_arrays(encoder.tensors, arrays(model))
    same_arrays(heads.marker_to_gguf(module, 4), arrays(head))
    assert keys(model)["lfm2.attention.causal"] is False
    assert keys(model)["lfm2.decision.temperature.choice.3_5"] == 1.5
    assert all(sum(values) == pytest.approx(1) for values in decide(model, head).values())


def test_clm(tmp_path):
    """Qwen3 as it is, and towers and scale from the .pt file, with its settings as keys."""
    base = build("qwen3", tmp_path / "base.gguf", seed=2)
    base_folder = checkpoint.save(base, tmp_path / "base")
    folder = tmp_path / "CLM"
    folder.mkdir()
    module = heads.scramble(heads.BiEncoder(64, 48, 3, 24, True, False), 21)
    saved = {
        "logit_scale": module.logit_scale.data,
        "cfg": {"activation": "gelu", "residual": False, "hidden_size": 64},
    }
    saved |= {"state_head": module.state_head.state_dict(), "action_head": module.action_head.state_dict()}
    torch.save(saved, folder / "CLM_v0.1-8B.pt")
    model, head = converted(folder, tmp_path / "out", base_folder)
    same_arrays(base.tensors, arrays(model))
    same_arrays({name: np.atleast_1d(array) for name, array in heads.arrays(module).items()}, arrays(head))
    assert all(sum(values) == pytest.approx(1) for values in decide(model, head, "clm").values())


def test_gliner(tmp_path):
    """DeBERTa's layers and the classifier go to the head, words and tokenizer to the model, the rest nowhere."""
    transformers = pytest.importorskip("transformers")
    config = {
        "vocab_size": 60, "hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 96,
        "relative_attention": True, "position_buckets": 16, "max_relative_positions": -1,
        "max_position_embeddings": 512,
        "pos_att_type": ["p2c", "c2p"], "share_att_key": True, "norm_rel_ebd": "layer_norm",
        "position_biased_input": False, "type_vocab_size": 0, "layer_norm_eps": 1e-7,
    }  # fmt: skip
    encoder = heads.scramble(transformers.DebertaV2Model(transformers.DebertaV2Config(**config)), 3)
    draw = Random(4)
    classifier = {"classifier.0.weight": draw.matrix(96, 48), "classifier.0.bias": draw.normal((96,))}
    classifier |= {"classifier.2.weight": draw.matrix(1, 96, 4), "classifier.2.bias": draw.normal((1,))}
    inner = heads.arrays(encoder)
    folder = tmp_path / "GLiNER2.5-Decide"
    specials = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[SEP_TEXT]", "[P]", "[L]", "[DESCRIPTION]"]
    pieces = ["▁", *(chr(code) for code in range(97, 123)), *'(){}:?"1é']
    vocabulary = [[text, 0.0] for text in specials[:4]] + [[piece, -5.0] for piece in pieces]
    added = [{"id": number, "content": text, "special": text != "[UNK]"} for number, text in enumerate(specials[:4])]
    added += [{"id": len(vocabulary) + n, "content": text, "special": True} for n, text in enumerate(specials[4:])]
    source = {"model": {"type": "Unigram", "unk_id": 3, "vocab": vocabulary}, "added_tokens": added}
    write_json(folder / "tokenizer.json", source)
    write_json(folder / "tokenizer_config.json", {"unk_token": "[UNK]", "sep_token": "[SEP]", "eos_token": "[SEP]"})
    write_json(folder / "config.json", {"model_type": "extractor"})
    write_json(folder / "encoder_config" / "config.json", config | {"model_type": "deberta-v2"})
    tensors = {f"encoder.{name}": array for name, array in inner.items()} | classifier
    write_safetensors(folder / "model.safetensors", tensors | {"span_rep.x.weight": np.ones((2, 2), np.float32)})
    model, head = converted(folder, tmp_path / "out")
    words = inner.pop("embeddings.word_embeddings.weight")
    same_arrays({"token_embd.weight": words}, arrays(model))
    same_arrays(inner | classifier, arrays(head))
    found = {key.removeprefix("localdecide.head."): value for key, value in keys(head).items()}
    assert (found["head_count"], found["position_buckets"], found["max_relative_positions"]) == (4, 16, 512)
    assert all(sum(values) == pytest.approx(1) for values in decide(model, head, "gliner-decide").values())


def test_what_cannot_be_converted_is_one_sentence(tmp_path, capsys):
    """A folder of no known kind, a missing base, another width: exit code 1 and why, never a traceback."""
    assert main([str(tmp_path / "nowhere")]) == 1
    assert "is not a folder" in capsys.readouterr().err
    write_json(tmp_path / "config.json", {"model_type": "llama"})
    assert main([str(tmp_path)]) == 1
    assert "is no decision model of a known kind" in capsys.readouterr().err
    write_json(tmp_path / "training_config.json", {})
    write_json(tmp_path / "adapter_config.json", {"r": 1, "lora_alpha": 1})
    torch.save({"head": {}}, tmp_path / "head.pt")
    assert main([str(tmp_path)]) == 1
    assert "give its folder with --base" in capsys.readouterr().err


def test_bfloat16_is_read_exactly(tmp_path):
    """BF16 in safetensors becomes the float32 with the same upper half."""
    from gguf_convert.checkpoint import safetensors

    values = np.array([1.0, -2.5, 3.140625, 65280.0], np.float32)
    data = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
    header = json.dumps({"x": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]}}).encode()
    path = tmp_path / "m.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)
    assert safetensors(path)["x"]().tolist() == values.reshape(2, 2).tolist()
