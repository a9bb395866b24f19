"""Training a backbone further: frozen blocks, rates by depth, batch and epochs by size, and whether it helped."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torchvision import models

import contrastive
from contrastive.config.compose import batch_for, batch_within, epochs_for
from contrastive.encoder._trained import add_lora, by_depth, freeze_first, merged, rates
from contrastive.errors import ConfigError
from contrastive.experiment.components import build_optimizer
from contrastive.experiment.make import make
from contrastive.experiment.summary import gain, verdict_text
from contrastive.text import pack_bits
from tests.helpers import check_resumes, module

ADAM = {"_target_": "torch.optim.Adam", "_partial_": True, "lr": 1.0}


@pytest.fixture
def vit() -> nn.Module:
    pytest.importorskip("timm")
    return make("encoder/timm", name="vit_tiny_patch16_224", image_size=32)


@pytest.mark.slow
def test_blocks_of_networks_by_their_names(vit):
    groups = by_depth(vit)
    assert len(groups) == 14  # what comes before, twelve blocks, what comes after
    assert groups[0] == ["cls_token", "pos_embed", "patch_embed.proj.weight", "patch_embed.proj.bias"]
    assert all(name.startswith("blocks.11.") for name in groups[12]) and groups[13] == ["norm.weight", "norm.bias"]
    resnet = by_depth(make("encoder/resnet18", width=4))
    assert [group[0].split(".")[0] for group in resnet[:5]] == ["conv1", "layer1", "layer2", "layer3", "layer4"]
    assert resnet[5] == []
    assert len(by_depth(models.vit_b_32())) == 14 and len(by_depth(make("encoder/timm", name="convnext_atto"))) == 6


def test_frozen_blocks_stay_and_others_learn(vit):
    with pytest.raises(ConfigError, match=r"try encoder\.frozen=0\.5"):
        freeze_first(vit, 13)
    freeze_first(vit, 0.5)
    still = {name for name, p in vit.named_parameters() if not p.requires_grad}
    assert {name.split(".")[1] for name in still if name.startswith("blocks.")} == set("012345")
    assert "pos_embed" in still and "norm.weight" not in still
    other = make("encoder/resnet18", width=4)
    freeze_first(other, 2)
    before = {name: value.clone() for name, value in other.state_dict().items()}
    other.train()(torch.randn(4, 3, 16, 16)).sum().backward()
    build_optimizer(ADAM, [list(other.parameters())]).step()
    changed = {name.split(".")[0] for name, value in other.state_dict().items() if not torch.equal(value, before[name])}
    counters = {name.split(".")[0] for name in before if name.endswith("num_batches_tracked")}
    assert changed - counters == set() and {"layer3", "layer4"} <= changed
    for name, value in other.state_dict().items():
        if name.startswith(("conv1", "bn1", "layer1", "layer2")) and not name.endswith("num_batches_tracked"):
            assert torch.equal(value, before[name]), name


def test_lora_is_an_update_of_low_rank_to_the_blocks(vit):
    x, before = torch.randn(2, 3, 32, 32), {name: value.clone() for name, value in vit.state_dict().items()}
    features = vit.eval()(x)
    freeze_first(vit, 6)
    add_lora(vit, 4)
    assert torch.equal(vit(x), features)  # B = 0
    trained = {name for name, p in vit.named_parameters() if p.requires_grad}
    assert len(trained) == 6 * 4 * 2 and all(name.endswith((".up", ".down")) for name in trained)
    optimizer = build_optimizer(ADAM, [[p for p in vit.parameters() if p.requires_grad]])
    for _ in range(2):
        optimizer.zero_grad()
        vit(x).square().sum().backward()
        optimizer.step()
    joined = merged(vit)
    assert torch.allclose(joined(x), vit(x), atol=1e-5) and all(p.requires_grad for p in joined.parameters())
    changes = {name: value - before[name] for name, value in joined.state_dict().items()}
    ranks = {name: int(torch.linalg.matrix_rank(x)) for name, x in changes.items() if x.dim() == 2 and x.any()}
    assert set(ranks.values()) == {4} and len(ranks) == 6 * 4
    assert {name.split(".")[1] for name in ranks} == {"6", "7", "8", "9", "10", "11"}
    with pytest.raises(ConfigError, match=r"try encoder\.lora=0"):
        add_lora(make("encoder/resnet18", width=4), 8)


def test_rates_fall_towards_the_first_block(vit):
    freeze_first(vit, 6)
    (factor, last), *earlier = rates(vit, 0.5)
    assert factor == 1 and [id(p) for p in last] == [id(p) for p in vit.norm.parameters()]
    groups = [last, *(group for _, group in earlier)]
    optimizer = build_optimizer(ADAM, groups, [1.0, *(factor for factor, _ in earlier)])
    lr = {id(p): group["initial_lr"] for group in optimizer.param_groups for p in group["params"]}
    assert lr[id(vit.blocks[11].mlp.fc1.weight)] == 0.5 and lr[id(vit.blocks[6].mlp.fc1.weight)] == 0.5**6
    assert id(vit.blocks[5].mlp.fc1.weight) not in lr
    assert len(rates(vit, 1.0)) == 1


@pytest.mark.parametrize(("n", "batch", "epochs"), [(20, 16, 100), (300, 32, 100), (4000, 256, 50), (40_000, 256, 5)])
def test_batch_and_epochs_follow_from_the_images(tmp_path, monkeypatch, n, batch, epochs):
    monkeypatch.setattr("contrastive.config.compose.os.walk", lambda _: [("", [], ["image.png"] * n), ("", [], [".x"])])
    assert (batch_for(str(tmp_path)), epochs_for(str(tmp_path))) == (batch, epochs)
    assert (batch_for(None), epochs_for(None)) == (256, 20)
    assert (batch_within(512, str(tmp_path)), batch_within(512, None)) == ({20: 8, 300: 128}.get(n, 512), 512)


def test_the_interval_is_that_of_agresti_and_min():
    """Half an image is added to each cell; the cells are those of Agresti 2002, table 10.1."""
    before = np.repeat([True, True, False, False], [794, 150, 86, 570])
    after = np.repeat([True, False, True, False], [794, 150, 86, 570])
    found = gain(before, after)
    p12, p21, n = 150.5 / 1602, 86.5 / 1602, 1602
    error = math.sqrt((p12 + p21 - (p21 - p12) ** 2) / n)
    assert found.points == pytest.approx(-4.0)
    ends = [100 * (p21 - p12 + sign * 1.959964 * error) for sign in (-1, 1)]
    assert [found.low, found.high] == pytest.approx(ends)


def result(before: np.ndarray, after: np.ndarray) -> dict[str, dict[str, str]]:
    bits = {"untrained_correct": {"linear_top1": pack_bits(before)}, "correct": {"linear_top1": pack_bits(after)}}
    return {"encoder": {"before": "as loaded"}, **bits}


def test_the_sentence_says_whether_it_helped():
    half, most = np.arange(200) % 2 == 0, np.arange(200) % 10 > 0
    helped = verdict_text(result(half & most, most))
    assert helped.startswith("It helped: linear_top1 is 90.0 and was 40.0 with the weights that it began with, +50.0")
    assert verdict_text(result(most, half & most)).startswith("It got worse: ")
    assert verdict_text(result(half, half)).startswith("It did not help, as far as 200 test images tell: ")
    assert verdict_text({"correct": {}}) is None  # nothing was trained
    assert "not known" in verdict_text({"encoder": {"before": "as loaded"}, "untrained_correct": {}, "correct": {}})


@pytest.mark.slow
def test_lora_is_resumed_merged_and_verified(tmp_path, composed):
    """A run of LoRA writes a file that has the names of its network; killed between epochs it ends in the same one."""
    pytest.importorskip("timm")
    words = [
        "dataset=digits", "dataset.size=16", "encoder=timm", "encoder.name=test_vit", "encoder.image_size=16",
        "device=cpu", "threads=1", "evaluator=[linear]", "evaluator.linear.max_iter=5", "encoder.lora=2",
        "encoder.layer_decay=0.5", "batch_size=256", "checkpoint_every=1",
    ]  # fmt: skip
    check_resumes(7, composed(*words, "epochs=2"), tmp_path)
    encoder, _ = contrastive.load_encoder(tmp_path / "whole")
    assert not any(name.endswith((".up", ".down")) for name in encoder.state_dict())
    checked = module("evaluate", "whole", "evaluator=[linear]", "device=cpu", cwd=tmp_path)
    assert "linear_top1 as recorded" in checked.stdout, checked.stdout + checked.stderr
