"""Every head in NumPy against the same weights in PyTorch."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")
import torch_heads  # noqa: E402

from localdecide.families.heads.arithmetic import gelu  # noqa: E402
from localdecide.families.heads.bi_encoder import BiEncoderHead  # noqa: E402
from localdecide.families.heads.deberta import Deberta, distances  # noqa: E402
from localdecide.families.heads.joint import Field, JointHead  # noqa: E402
from localdecide.families.heads.joint_names import block_counts  # noqa: E402
from localdecide.families.heads.marker import MarkerHead  # noqa: E402
from localdecide.families.heads.pointer import PointerHead  # noqa: E402
from localdecide.families.heads.readout import ReadoutHead  # noqa: E402

pytestmark = pytest.mark.reference
TOLERANCE = 1e-5


def rows(count: int, width: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(count, width, generator=torch.Generator().manual_seed(seed))


def lost(tensors, ending: str) -> dict:
    """The same tensors, norms whose names end so without their learned weight and bias."""
    assert any(name.endswith(f"{ending}.weight") for name in tensors), ending
    plain = {f"{ending}.weight": np.ones_like, f"{ending}.bias": np.zeros_like}
    return {
        name: next((change(array) for end, change in plain.items() if name.endswith(end)), array)
        for name, array in tensors.items()
    }


def probabilities(logits) -> np.ndarray:
    return torch.softmax(torch.as_tensor(np.asarray(logits), dtype=torch.float64), 0).numpy()


def assert_close(expected, actual) -> None:
    """Logits within the tolerance of the largest, probabilities within it outright."""
    expected = expected.detach().numpy()
    assert np.max(np.abs(expected - actual)) < TOLERANCE * max(1, np.max(np.abs(expected)))
    assert np.max(np.abs(probabilities(expected) - probabilities(actual))) < TOLERANCE


def assert_far(expected, actual) -> None:
    """A broken head is off by far more than the tolerance."""
    assert np.max(np.abs(probabilities(expected.detach().numpy()) - probabilities(actual))) > 100 * TOLERANCE


def test_gelu_is_pytorchs_exact_one():
    """GELU of every value from -8 to 8 in steps of 2^-12 is PyTorch's erf form."""
    x = np.arange(-8, 8, 2.0**-12, dtype=np.float32)
    expected = torch.nn.functional.gelu(torch.from_numpy(x)).numpy()
    assert np.max(np.abs(expected - gelu(x)) / np.maximum(1, np.abs(x))) < 5e-7


@pytest.mark.parametrize("options", [1, 2, 26, 27, 255])
def test_pointer_head(options):
    """Pointer logits are the key of each option's end times the query of the decide token."""
    module = torch_heads.scramble(torch_heads.Pointer(64, 16), 1, 2.0)
    hidden = rows(options + 1, 64, options)
    head = PointerHead.load(torch_heads.pointer_to_gguf(module))
    assert_close(module(hidden, list(range(options))), head.logits(hidden.numpy(), options))


def test_pointer_head_that_is_broken_is_far_off():
    """Exchanged query and key, a lost bias or scale, or a shifted row moves the answer."""
    module = torch_heads.scramble(torch_heads.Pointer(64, 16), 1, 2.0)
    hidden = rows(6, 64)
    expected = module(hidden, list(range(5)))
    good = PointerHead.load(torch_heads.pointer_to_gguf(module))
    swapped = PointerHead(good.key, good.query)
    biasless = PointerHead(good.query, type(good.key)(good.key.weight, 0 * good.key.bias))
    assert_far(expected, swapped.logits(hidden.numpy(), 5))
    assert_far(expected, np.asarray(good.logits(hidden.numpy(), 5)) * 2)
    assert_far(expected, good.logits(hidden.numpy()[[1, 2, 3, 4, 0, 5]], 5))
    # A key bias adds the same to every option: it moves the logits and not the answer.
    assert not np.allclose(expected.detach().numpy(), biasless.logits(hidden.numpy(), 5), atol=1e-3)


def test_readout_head():
    """Readout logits are the first rows of the readout times the last hidden row."""
    weight = torch.randn(255, 64, generator=torch.Generator().manual_seed(3)) * 0.5
    hidden = rows(1, 64)
    head = ReadoutHead.load({"readout.weight": weight.numpy()})
    for options in (1, 2, 26, 27, 255):
        assert_close(weight[:options] @ hidden[0], head.logits(hidden.numpy(), options))


@pytest.mark.parametrize("kind", ["choice", "score", "noul"])
@pytest.mark.parametrize("tokens", [9, 300])
def test_marker_head(kind, tokens):
    """Two pre-norm blocks and the scorer at the masks, for every type embedding."""
    module = torch_heads.scramble(torch_heads.Marker(64, 4, 2, 1e-5), 2, 2.0)
    hidden, masks = rows(tokens, 64, 5), [2, 4, 7]
    head = MarkerHead.load(torch_heads.marker_to_gguf(module, 22), heads=4, eps=1e-5)
    expected = module(hidden, {"choice": 0, "score": 1, "noul": 2}[kind], masks)
    assert_close(expected, head.logits(hidden.numpy(), kind, masks))


def test_marker_head_that_is_broken_is_far_off():
    """Another type, head count, block order, eps or mask position moves the answer."""
    module = torch_heads.scramble(torch_heads.Marker(64, 4, 2, 1e-5), 2, 2.0)
    hidden, masks = rows(30, 64, 5), [2, 4, 7]
    tensors = torch_heads.marker_to_gguf(module, 22)
    expected = module(hidden, 0, masks)
    head = MarkerHead.load(tensors, heads=4, eps=1e-5)
    assert_far(expected, head.logits(hidden.numpy(), "noul", masks))
    assert_far(expected, head.logits(hidden.numpy(), "choice", [3, 4, 7]))
    assert_far(expected, MarkerHead.load(tensors, heads=2, eps=1e-5).logits(hidden.numpy(), "choice", masks))
    assert_far(expected, MarkerHead.load(tensors, heads=4, eps=1.0).logits(hidden.numpy(), "choice", masks))
    turned = {name.replace("blk.22", "blk.99"): array for name, array in tensors.items()}
    assert_far(expected, MarkerHead.load(turned, heads=4, eps=1e-5).logits(hidden.numpy(), "choice", masks))


@pytest.mark.parametrize("norm", ["attn_norm", "ffn_norm", "cls.norm"])
def test_a_marker_head_without_a_norm_is_far_off(norm):
    """Each kind of norm counts: one that lost its weight and bias moves the answer."""
    module = torch_heads.scramble(torch_heads.Marker(64, 4, 2, 1e-5), 2, 2.0)
    hidden, masks = rows(30, 64, 5), [2, 4, 7]
    tensors = lost(torch_heads.marker_to_gguf(module, 22), norm)
    head = MarkerHead.load(tensors, heads=4, eps=1e-5)
    assert_far(module(hidden, 0, masks), head.logits(hidden.numpy(), "choice", masks))


def joint_case(prior: float = 1.0):
    """A joint prompt with a noul, a choice and a score; spans are apart and of several lengths."""
    module = torch_heads.scramble(torch_heads.Joint(64, 32, 2, 2, 4, 48), 4, 1.5)
    module.prior_logit_scale.data.fill_(prior)
    module.joint_logit_scale.data.fill_(0.7)
    module.residual_gate.data.fill_(0.5)
    embedding = rows(50, 64, 6)
    fields = [
        (0, (3, 5), [((7, 8), [1]), ((9, 12), [2, 2, 3])]),
        (1, (14, 15), [((16, 20), [4, 5, 6, 7]), ((21, 22), [8]), ((23, 25), [9, 1])]),
        (2, (27, 31), [((32, 33), [11]), ((34, 36), [12, 13]), ((37, 38), [14]), ((39, 40), [15])]),
    ]
    hidden = rows(44, 64, 7)
    ours = [
        Field(("noul", "choice", "score")[kind], question, tuple(span for span, _ in options))
        for kind, question, options in fields
    ]
    lexical = np.stack([embedding[ids].mean(0).numpy() for _, _, options in fields for _, ids in options])
    return module, hidden, fields, embedding, ours, lexical


def joint_head(tensors) -> JointHead:
    routing, joint = block_counts(tensors)
    return JointHead.load(tensors, heads=4, routing=routing, joint=joint)


@pytest.mark.parametrize("layout", ["upstream", "checkpoint", "ollama"])
@pytest.mark.parametrize("prior", [1.0, 5.0])
def test_joint_head(layout, prior):
    """Both spellings of the head's tensors give PyTorch's logits; a prior scale over 100 is clamped."""
    module, hidden, fields, embedding, ours, lexical = joint_case(prior)
    if layout == "upstream":
        tensors = torch_heads.joint_to_gguf(module)
    else:
        prefix = "clef." if layout == "ollama" else ""
        tensors = {prefix + name: array for name, array in torch_heads.arrays(module).items()}
    assert block_counts(tensors) == (2, 2)
    for expected, actual in zip(
        module(hidden, fields, embedding), joint_head(tensors).logits(hidden.numpy(), ours, lexical), strict=True
    ):
        assert_close(expected, actual)


def test_joint_head_depends_on_companions():
    """The same question answers differently beside others, as the reference's does."""
    module, hidden, fields, embedding, ours, lexical = joint_case()
    head = joint_head(torch_heads.joint_to_gguf(module))
    alone = head.logits(hidden.numpy(), ours[:1], lexical[:2])[0]
    assert_close(module(hidden, fields[:1], embedding)[0], alone)
    assert_far(module(hidden, fields, embedding)[0], alone)


def test_joint_head_that_is_broken_is_far_off():
    """A moved span, another type, head count, scale or lexical row moves the answer."""
    module, hidden, fields, embedding, ours, lexical = joint_case()
    expected = module(hidden, fields, embedding)[1]
    tensors = torch_heads.joint_to_gguf(module)
    good = joint_head(tensors)

    def broken(fields=ours, lexical=lexical, head=good):
        return head.logits(hidden.numpy(), fields, lexical)[1]

    moved = Field("choice", ours[1].question, ((15, 20), *ours[1].options[1:]))
    retyped = Field("noul", ours[1].question, ours[1].options)
    assert_far(expected, broken([ours[0], moved, ours[2]]))
    assert_far(expected, broken([ours[0], retyped, ours[2]]))
    assert_far(expected, broken(lexical=lexical[::-1]))
    assert_far(expected, broken(head=JointHead.load(tensors, heads=8, routing=2, joint=2)))
    rescaled = tensors | {"decision.scales": tensors["decision.scales"] * np.float32([1, 1, 1.2])}
    assert_far(expected, broken(head=joint_head(rescaled)))


JOINT_NORMS = ("hidden_norm", "option_summary_norm", "field_norm", "decision.option_norm")
BLOCK_NORMS = ("cross_attn_norm", "cross_attn_norm_kv", ".attn_norm", "ffn_norm")


@pytest.mark.parametrize("norm", JOINT_NORMS + BLOCK_NORMS)
def test_a_joint_head_without_a_norm_is_far_off(norm):
    """Each kind of norm counts: one that lost its weight and bias moves the answer."""
    module, hidden, fields, embedding, ours, lexical = joint_case()
    head = joint_head(lost(torch_heads.joint_to_gguf(module), norm))
    assert_far(module(hidden, fields, embedding)[1], head.logits(hidden.numpy(), ours, lexical)[1])


@pytest.mark.parametrize("layernorm", [True, False])
@pytest.mark.parametrize("residual", [True, False])
@pytest.mark.parametrize("scale", [2.0, math.log(100) + 1])
def test_bi_encoder_head(layernorm, residual, scale):
    """Towers with and without norms and residuals; a scale over 100 is clamped."""
    module = torch_heads.scramble(torch_heads.BiEncoder(64, 48, 4, 24, layernorm, residual), 8, 2.0)
    module.logit_scale.data.fill_(scale)
    state, candidates = rows(1, 64, 9), rows(27, 64, 10)
    head = BiEncoderHead.load(torch_heads.arrays(module), residual=residual)
    assert_close(module(state[0], candidates), head.logits(state.numpy(), candidates.numpy()))


def test_bi_encoder_that_is_broken_is_far_off():
    """Exchanged towers, another scale or residual rule, a lost norm or bias move the answer."""
    module = torch_heads.scramble(torch_heads.BiEncoder(64, 48, 4, 24, True, False), 8, 2.0)
    state, candidates = rows(1, 64, 9), rows(5, 64, 10)
    head = BiEncoderHead.load(torch_heads.arrays(module))
    expected = module(state[0], candidates)
    assert_far(expected, BiEncoderHead(head.candidate, head.state, head.scale).logits(state, candidates))
    assert_far(expected, BiEncoderHead.load(torch_heads.arrays(module), residual=True).logits(state, candidates))
    tensors = torch_heads.arrays(module)
    unscaled = tensors | {"logit_scale": np.float32([0.0])}
    # A scale that is taken for its own logarithm.
    logarithm = tensors | {"logit_scale": np.log(np.float32([2.0]))}
    unbiased = {name: 0 * array if name.endswith("out.bias") else array for name, array in tensors.items()}
    without = {name: array for name, array in tensors.items() if ".norms." not in name}
    for broken in (unscaled, logarithm, unbiased, without, lost(tensors, "norms.0"), lost(tensors, "norms.1")):
        assert_far(expected, BiEncoderHead.load(broken).logits(state, candidates))


@pytest.mark.parametrize("tokens", [1, 7, 90])
def test_deberta_encoder(tokens):
    """Rows of the last layer are those of transformers' DebertaV2Model, near and far positions."""
    transformers = pytest.importorskip("transformers")
    config = transformers.DebertaV2Config(
        vocab_size=120, hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96,
        relative_attention=True, position_buckets=16, max_relative_positions=-1, max_position_embeddings=64,
        pos_att_type=["p2c", "c2p"], share_att_key=True, norm_rel_ebd="layer_norm", position_biased_input=False,
        type_vocab_size=0, layer_norm_eps=1e-7, pad_token_id=0,
    )  # fmt: skip
    module = torch_heads.scramble(transformers.DebertaV2Model(config), 11, 1.5)
    ids = torch.randint(1, 120, (1, tokens), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = module(ids).last_hidden_state[0].numpy()
    arrays = torch_heads.arrays(module)
    words = arrays["embeddings.word_embeddings.weight"].__getitem__
    encoder = Deberta.load(arrays, words, heads=4, buckets=16, reach=64)
    assert np.max(np.abs(expected - encoder(ids[0].tolist()))) < TOLERANCE
    shifted = Deberta.load(arrays, words, heads=4, buckets=16, reach=128)
    if tokens > 64:
        assert np.max(np.abs(expected - shifted(ids[0].tolist()))) > 100 * TOLERANCE


def test_deberta_that_is_broken_is_far_off():
    """Another head count, eps or bucket count, lost biases, norms or distances, or words in another order move rows."""
    transformers = pytest.importorskip("transformers")
    config = transformers.DebertaV2Config(
        vocab_size=120, hidden_size=48, num_hidden_layers=2, num_attention_heads=4, intermediate_size=96,
        relative_attention=True, position_buckets=16, max_relative_positions=-1, max_position_embeddings=64,
        pos_att_type=["p2c", "c2p"], share_att_key=True, norm_rel_ebd="layer_norm", position_biased_input=False,
        type_vocab_size=0, layer_norm_eps=1e-7, pad_token_id=0,
    )  # fmt: skip
    arrays = torch_heads.arrays(torch_heads.scramble(transformers.DebertaV2Model(config), 13, 1.5))
    words = arrays["embeddings.word_embeddings.weight"].__getitem__
    right = {"heads": 4, "buckets": 16, "reach": 64, "eps": 1e-7}
    tokens = list(range(1, 60))
    expected = Deberta.load(arrays, words, **right)(tokens)

    def moved(tokens=tokens, without="", **other):
        kept = {name: 0 * array if without and name.endswith(without) else array for name, array in arrays.items()}
        return float(np.max(np.abs(expected - Deberta.load(kept, words, **right | other)(tokens))))

    shifts = [moved(heads=2), moved(eps=1.0), moved(buckets=8), moved(without="query_proj.bias")]
    shifts += [moved(without="rel_embeddings.weight"), moved(without="output.LayerNorm.bias"), moved(tokens[::-1])]
    assert moved() == 0.0
    assert min(shifts) > 100 * TOLERANCE


def test_deberta_distances():
    """Log-spaced buckets are transformers' for every pair within twice the reach."""
    modeling = pytest.importorskip("transformers.models.deberta_v2.modeling_deberta_v2")
    x = torch.zeros(1, 1024, 1)
    expected = modeling.build_relative_position(x, x, bucket_size=256, max_position=512)[0].numpy()
    assert np.array_equal(expected, distances(1024, 256, 512))
