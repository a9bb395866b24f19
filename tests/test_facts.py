"""The rows of published tables against what the papers and their code say, typed here from them, not from the YAMLs."""

import re
from typing import Any, NamedTuple

import pytest

from contrastive.config.settings import Settings
from contrastive.errors import ConfigError
from contrastive.tables.spec import PRESETS, Row, read_table, row_folder
from tests.helpers import ROOT

PATHS = sorted((ROOT / "configs/table").glob("*.yaml"))


class Facts(NamedTuple):
    """What holds in the rows of a table whose name matches a regular expression."""

    table: str
    rows: str
    values: dict[str, Any]  # dotted setting: value


CIFAR_STEM = {"encoder.width": 64, "encoder.stem": "small"}  # 3 × 3, no max-pooling
SIMCLR_VIEWS = {  # of the debiased papers, and of SimCLR on CIFAR-10 but for the blur
    "augmentation.ops.crop.scale": [0.08, 1.0],
    "augmentation.ops.crop.flip": 0.5,
    "augmentation.ops.jitter.brightness": 0.4,
    "augmentation.ops.jitter.hue": 0.1,
    "augmentation.ops.jitter.p": 0.8,
    "augmentation.ops.grayscale.p": 0.2,
}
DEBIASED = {  # Chuang et al. 2020 and Troeshestova & Isachenko 2023 share it
    **CIFAR_STEM,
    **SIMCLR_VIEWS,
    "augmentation.ops.blur.kernel_size": 3,
    "augmentation.ops.blur.sigma": [0.1, 2.0],
    "augmentation.ops.blur.p": 0.5,
    "head._target_": "contrastive.head.mlp.MLP",
    "head.hidden_dim": 512,
    "head.out_dim": 128,
    "head.n_layers": 2,
    "head.batch_norm": "hidden",
    "optimizer._target_": "torch.optim.Adam",
    "optimizer.lr": 1e-3,
    "optimizer.weight_decay": 1e-6,
    "schedule._target_": "contrastive.schedule.constant.Constant",
    "temperature": 0.5,
    "loss.temperature": 0.5,
    "views_forward": "per_view",
    "precision": "fp32",
    "sampler": "uniform",
    "evaluator.knn.k": 200,
    "evaluator.knn.temperature": 0.5,
}
DCL_PROBE = {
    "evaluator.adam_probe.lr": 1e-3,
    "evaluator.adam_probe.weight_decay": 1e-6,
    "evaluator.adam_probe.epochs": 100,
    "evaluator.adam_probe.batch_size": 512,
}
SUPCON = {  # Khosla et al. 2020, which Barbano et al. 2023 copy
    "encoder.depth": 50,
    "head.hidden_dim": None,  # as wide as the features: 2048
    "head.out_dim": 128,
    "head.batch_norm": "none",
    "augmentation.ops.crop.scale": [0.2, 1.0],
    "augmentation.ops.crop.flip": 0.5,
    "augmentation.ops.jitter.brightness": 0.4,
    "augmentation.ops.jitter.hue": 0.1,
    "augmentation.ops.jitter.p": 0.8,
    "augmentation.ops.grayscale.p": 0.2,
    "augmentation.ops.blur": None,
    "n_views": 2,
    "views_forward": "fused",
    "batch_size": 1024,
    "optimizer._target_": "torch.optim.SGD",
    "optimizer.momentum": 0.9,
    "schedule._target_": "contrastive.schedule.cosine.Cosine",
    "schedule.warmup_epochs": 10,
    "schedule.warmup_from": pytest.approx(0.01 / 0.5),
    "schedule.final": pytest.approx(0.1**3),
    "schedule.decay_from": "start",
    "evaluator.sgd_probe.momentum": 0.9,
    "evaluator.sgd_probe.weight_decay": 0.0,
    "evaluator.sgd_probe.epochs": 100,
    "evaluator.sgd_probe.batch_size": 512,
    "evaluator.sgd_probe.milestones": [60, 75, 90],
    "evaluator.sgd_probe.decay": 0.2,
}


def scaled_loss(temperature: float) -> dict[str, float]:
    """SGD at lr 0.5 and weight decay 1e-4 on the loss times t / 0.07, which the authors' code has in it."""
    factor = temperature / 0.07
    return {
        "loss.temperature": temperature,
        "optimizer.lr": pytest.approx(0.5 * factor),
        "optimizer.weight_decay": pytest.approx(1e-4 / factor),
    }


EPS = {
    "loss.temperature": 0.1,
    "loss.epsilon": 0.25,
    "loss.semantics": "released",
    "loss.form": "out",
    "optimizer.lr": 0.5,  # the factor is in the loss
    "optimizer.weight_decay": 1e-4,
}
CROSS_ENTROPY = {
    "encoder.depth": 50,
    "head._target_": "contrastive.head.identity.Identity",
    "n_views": 1,
    "batch_size": 1024,
    "augmentation.ops.crop.scale": [0.2, 1.0],
    "augmentation.ops.crop.flip": 0.5,
    "augmentation.ops.jitter": None,
    "augmentation.ops.grayscale": None,
    "augmentation.ops.blur": None,
    "optimizer._target_": "torch.optim.SGD",
    "optimizer.lr": 0.8,
    "optimizer.momentum": 0.9,
    "optimizer.weight_decay": 1e-4,
    "schedule.warmup_epochs": 10,
    "schedule.warmup_from": pytest.approx(0.01 / 0.8),
    "schedule.final": pytest.approx(0.1**3),
    "schedule.decay_from": "start",
}
BIASED_MNIST = {
    "dataset._target_": "contrastive.dataset.biased_mnist.biased_mnist",
    "dataset.data_seed": 0,  # that of the run, whose default is 0
    "encoder._target_": "contrastive.encoder.simple_convnet.SimpleConvNet",
    "encoder.width": 16,
    "encoder.kernel_size": 7,
    "head._target_": "contrastive.head.identity.Identity",
    "epochs": 80,
    "optimizer._target_": "torch.optim.Adam",
    "optimizer.weight_decay": 1e-4,
    "schedule.milestones": [26, 53],
    "schedule.gamma": 0.1,
}
HONG_YANG = {"dataset.colors": "rebias", "evaluator.bias_audit.metric": "cell_mean_top1"}  # gray is the tenth color
PLAIN = {"augmentation.ops": {}, "n_views": 1, "sampler": "uniform"}  # no augmentation
BIAS_CONTRASTIVE = {
    "loss._target_": "contrastive.loss.bias_contrastive.BiasContrastive",
    "loss.temperature": 0.07,
    "encoder.last": "relu",
    "batch_size": 64,
    "n_views": 2,
    "sampler": "bias_balanced",
    "augmentation.ops.rotation.degrees": 20.0,
    "augmentation.ops.jitter": None,  # Barbano et al. leave it out
    "regularizer.weight": 0.01,
    "regularizer.stream": "uniform",
    "regularizer.batch_size": 128,
    "optimizer.lr": 1e-3,
}
LOSS = "contrastive.loss."
REGULARIZER = "contrastive.regularizer."

FACTS = [
    # Troeshestova & Isachenko 2023
    Facts("debiased_positive", "", {**DEBIASED, "dataset._target_": "contrastive.dataset.cifar.cifar10"}),
    Facts("debiased_positive", "", {"encoder.depth": 18, "epochs": 50, "evaluator.knn.every": 1}),
    Facts("debiased_positive", "^(?!.*batch 64)", {"batch_size": 512}),
    Facts("debiased_positive", "M=4.*batch 64$", {"batch_size": 64, "n_views": 5, "loss.semantics": "paper"}),
    Facts("debiased_positive", "M=2", {"n_views": 3}),
    Facts("debiased_positive", "^(?!.*M=)", {"n_views": 2}),
    Facts("debiased_positive", "^NT-Xent", {"loss._target_": LOSS + "nt_xent.NTXent"}),
    Facts("debiased_positive", "^Debiased", {"loss.tau_plus": 0.1}),
    Facts("debiased_positive", "^Debiased neg", {"loss._target_": LOSS + "debiased_neg.DebiasedNeg"}),
    Facts("debiased_positive", "^Debiased pos", {"loss._target_": LOSS + "debiased_pos.DebiasedPos"}),
    Facts("debiased_positive", r"\(released\)", {"loss.semantics": "released"}),
    Facts("debiased_positive", r"\(paper\)", {"loss.semantics": "paper"}),
    Facts("debiased_positive", "pos-grouping", {"loss.aggregation": "pos_grouping"}),
    Facts("debiased_positive", "loss-combination", {"loss.aggregation": "loss_combination"}),
    Facts("debiased_positive", "oracle", {"loss.drop_false_negatives": True}),
    Facts("debiased_positive", "^(?!.*oracle)", {"loss.drop_false_negatives": False}),
    Facts("debiased_positive", "noise 0.3", {"noise_frac": 0.3, "blur_frac": 0.0}),
    Facts("debiased_positive", "blur 0.3", {"noise_frac": 0.0, "blur_frac": 0.3}),
    Facts("debiased_positive", "^(?!.*(noise|blur))", {"noise_frac": 0.0, "blur_frac": 0.0}),
    # Chuang et al. 2020, Robinson et al. 2021
    Facts("dcl", "", {**DEBIASED, **DCL_PROBE, "encoder.depth": 50, "epochs": 400, "noise_frac": 0.0}),
    Facts("dcl", "^CIFAR-10", {"dataset._target_": "contrastive.dataset.cifar.cifar10"}),
    Facts("dcl", "^CIFAR-10", {"augmentation.ops.crop.size": None}),
    Facts("dcl", "^STL-10", {"dataset._target_": "contrastive.dataset.stl10.stl10", "dataset.size": 96}),
    Facts("dcl", "^STL-10", {"dataset.stats": "cifar10", "augmentation.ops.crop.size": 32}),
    Facts("dcl", "biased, batch_size 32$|oracle, batch_size 32$", {"batch_size": 32}),
    Facts("dcl", "^(?!.*batch_size)|batch_size 256", {"batch_size": 256}),
    Facts("dcl", "(biased|oracle), batch_size", {"n_views": 2}),
    Facts("dcl", ", biased|oracle", {"loss._target_": LOSS + "nt_xent.NTXent"}),
    Facts("dcl", "debiased", {"loss._target_": LOSS + "debiased_neg.DebiasedNeg"}),
    Facts("dcl", "oracle", {"loss.drop_false_negatives": True}),
    Facts("dcl", "tau_plus 0.05", {"loss.tau_plus": 0.05}),
    Facts("dcl", "debiased, batch_size|hard|M =", {"loss.tau_plus": 0.1}),
    Facts("dcl", "hard", {"loss._target_": LOSS + "hard_negative.HardNegative"}),
    Facts("dcl", "beta 2.0", {"loss.beta": 2.0}),
    Facts("dcl", "M =.* 3$", {"n_views": 3, "loss.aggregation": "pos_grouping"}),
    Facts("dcl", "M =.* 5$", {"n_views": 5, "loss.aggregation": "pos_grouping"}),
    # Khosla et al. 2020, Barbano et al. 2023
    Facts("supervised", "cifar10$", {"dataset._target_": "contrastive.dataset.cifar.cifar10", **CIFAR_STEM}),
    Facts("supervised", "cifar100$", {"dataset._target_": "contrastive.dataset.cifar.cifar100", **CIFAR_STEM}),
    Facts("supervised", "^(SimCLR|SupCon|eps)", {**SUPCON, "epochs": 1000}),
    Facts("supervised", "^SimCLR", {"loss._target_": LOSS + "nt_xent.NTXent", **scaled_loss(0.5)}),
    Facts("supervised", "^SimCLR", {"evaluator.sgd_probe.lr": 1.0}),
    Facts("supervised", "^(SupCon|eps)", {"evaluator.sgd_probe.lr": 5.0}),
    Facts("supervised", "^SupCon", {"loss._target_": LOSS + "supcon.SupCon", "loss.form": "out", **scaled_loss(0.1)}),
    Facts("supervised", "^eps", {"loss._target_": LOSS + "eps_supinfonce.EpsSupInfoNCE", **EPS}),
    Facts("supervised", "^(Cross|Max)", {**CROSS_ENTROPY, "epochs": 500}),
    Facts("supervised", "^Cross", {"loss._target_": LOSS + "cross_entropy.CrossEntropy"}),
    Facts("supervised", "^Max", {"loss._target_": LOSS + "large_margin_softmax.LargeMarginSoftmax"}),
    Facts("imagenet100", "", {"dataset._target_": "contrastive.dataset.image_folder.image_folder"}),
    Facts("imagenet100", "", {"encoder.depth": 50, "encoder.stem": "large", "augmentation.ops.crop.size": 224}),
    Facts("imagenet100", "^(SimCLR$|SupCon|eps)", SUPCON),
    Facts("imagenet100", "^SimCLR$", {"loss._target_": LOSS + "nt_xent.NTXent", **scaled_loss(0.5)}),
    Facts("imagenet100", "^SupCon", {"loss._target_": LOSS + "supcon.SupCon", **scaled_loss(0.1)}),
    Facts("imagenet100", "^eps", {"loss._target_": LOSS + "eps_supinfonce.EpsSupInfoNCE", **EPS}),
    Facts("imagenet100", "^Cross", {"loss._target_": LOSS + "cross_entropy.CrossEntropy", **CROSS_ENTROPY}),
    # Chen et al. 2020
    Facts(
        "imagenet100",
        "Chen",
        {
            "optimizer._target_": "contrastive.optimizer.lars.LARS",
            "optimizer.lr": pytest.approx(0.075 * 512**0.5, abs=0.01),
            "optimizer.weight_decay": 1e-4,
            "schedule.warmup_epochs": 10,
            "temperature": 0.1,
            "epochs": 100,
            "augmentation.ops.jitter.brightness": 0.8,
            "augmentation.ops.jitter.hue": 0.2,
            "augmentation.ops.blur.kernel_size": 23,
        },
    ),
    Facts("simclr_cifar10", "", {**CIFAR_STEM, **SIMCLR_VIEWS, "augmentation.ops.blur": None, "encoder.depth": 18}),
    Facts("simclr_cifar10", "", {"batch_size": 512, "loss.temperature": 0.5, "precision": "fp32", "head.out_dim": 128}),
    Facts("simclr_cifar10", "", {"schedule._target_": "contrastive.schedule.cosine.Cosine", "evaluator.knn.k": 200}),
    Facts(
        "simclr_cifar10",
        "google",
        {
            "epochs": 1000,
            "optimizer._target_": "contrastive.optimizer.lars.LARS",
            "optimizer.lr": 1.0 * 512 / 256,
            "optimizer.momentum": 0.9,
            "optimizer.weight_decay": 1e-4,
            "optimizer.trust_coefficient": 1e-3,
            "optimizer.nesterov": False,
            "schedule.warmup_epochs": 10,
            "schedule.warmup_from": 0.0,
            "schedule.final": 0.0,
            "schedule.decay_from": "warmup",
            "head.n_layers": 3,
            "head.batch_norm": "all",
            "head.hidden_dim": None,
            "views_forward": "fused",
        },
    ),
    Facts("simclr_cifar10", "lightly, 200", {"epochs": 200}),
    Facts("simclr_cifar10", "lightly, 800", {"epochs": 800}),
    Facts(
        "simclr_cifar10",
        "lightly",
        {
            "optimizer._target_": "torch.optim.SGD",
            "optimizer.lr": pytest.approx(0.06 * 512 / 128),
            "optimizer.momentum": 0.9,
            "optimizer.weight_decay": 5e-4,
            "schedule.warmup_epochs": 0,
            "views_forward": "per_view",
            "evaluator.knn.temperature": 0.1,
        },
    ),
    # Hong & Yang 2021, Barbano et al. 2023
    Facts("biased_mnist", "", BIASED_MNIST),
    Facts("biased_mnist", "^(?!eps)", HONG_YANG),
    Facts("biased_mnist", "rho 0.999$", {"dataset.rho": 0.999}),
    Facts("biased_mnist", "^(CE|LNL|EnD|BB)", {**PLAIN, "batch_size": 128}),
    Facts("biased_mnist", "^(CE|LNL|BB)", {"encoder.last": "relu"}),
    Facts(
        "biased_mnist", "^(CE|LNL|EnD)", {"loss._target_": LOSS + "cross_entropy.CrossEntropy", "optimizer.lr": 1e-3}
    ),
    Facts("biased_mnist", "^CE", {"regularizer": {}}),
    Facts("biased_mnist", "^LNL", {"regularizer._target_": REGULARIZER + "lnl.LNL", "regularizer.weight": 1.0}),
    Facts("biased_mnist", "^EnD", {"encoder.last": "tanh", "loss.normalize": True}),
    Facts("biased_mnist", "^EnD", {"regularizer.alpha": 1.0, "regularizer.beta": 1.0}),
    Facts(
        "biased_mnist", "^EnD", {"regularizer._target_": REGULARIZER + "end.EnD", "regularizer.semantics": "released"}
    ),
    Facts("biased_mnist", "^BB", {"loss._target_": LOSS + "bias_balanced.BiasBalanced", "optimizer.lr": 1e-4}),
    Facts("biased_mnist", "^BC", BIAS_CONTRASTIVE),
    Facts("biased_mnist", r"^BC\+BB", {"regularizer.term._target_": LOSS + "bias_balanced.BiasBalanced"}),
    Facts("biased_mnist", r"^BC\+CE", {"regularizer.term._target_": LOSS + "cross_entropy.CrossEntropy"}),
    Facts(
        "biased_mnist",
        "FairKL",
        {
            **PLAIN,
            "dataset.colors": "barbano",
            "encoder.last": "tanh",
            "batch_size": 256,
            "optimizer.lr": 1e-3,
            "loss._target_": LOSS + "eps_supinfonce.EpsSupInfoNCE",
            "loss.temperature": 0.1,
            "loss.epsilon": 0.0,
            "regularizer.semantics": "released",
            "regularizer.kld": 1.0,
            "evaluator.online_probe.lr": 1e-3,
            "evaluator.online_probe.weight_decay": 0.0,
            "evaluator.bias_audit.reported": "online_probe_best_test",
        },
    ),
]


def trained_rows(table: str) -> list[Row]:
    """The rows of a table that are run; the others are quoted."""
    return [row for row in read_table(ROOT / "configs/table" / f"{table}.yaml").rows if row.words]


def look_up(settings: Settings, key: str) -> Any:
    node: Any = settings.to_dict()
    for part in key.split("."):
        assert part in node, f"there is no setting {key}"
        node = node[part]
    return node


@pytest.mark.slow
@pytest.mark.parametrize(
    "table",
    [
        pytest.param(table, marks=pytest.mark.smoke if table == "supervised" else ())
        for table in sorted({facts.table for facts in FACTS})
    ],
)
def test_rows_have_the_settings_of_the_papers(composed, table):
    rows = {row.name: composed(*row.words) for row in trained_rows(table)}
    checked = set()
    for facts in (facts for facts in FACTS if facts.table == table):
        matching = [name for name in rows if re.search(facts.rows, name)]
        assert matching, f"no row of {table} matches {facts.rows}"
        checked.update(matching)
        for name in matching:
            for key, value in facts.values.items():
                assert look_up(rows[name], key) == value, f"{table}: {name}: {key}"
    assert checked == rows.keys()


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_rows_have_folders_of_their_own_and_sources(path):
    for preset in PRESETS:
        table = read_table(path, preset=preset)
        folders = [row_folder(row, ROOT) for row in table.rows]
        assert len(set(folders)) == len(folders)
        for row in table.rows:
            assert row.words or row.published, "a row is neither run nor quoted"
            assert bool(row.source) == bool(row.published), row.name
            assert row.published.keys() <= table.metrics.keys(), row.name


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_rows_of_the_small_preset_compose(composed, path):
    """Of rows that differ in numbers alone the first. Those of the paper are composed above, those of smoke built."""
    rows = [row.words for row in read_table(path, preset="small").rows if row.words]
    for words in {tuple(re.sub(r"=[\d.e-]+$", "=", word) for word in row): row for row in rows}.values():
        composed(*words)


def test_hong_and_yang_is_named_as_the_source():
    rows = read_table(ROOT / "configs/table/biased_mnist.yaml").rows
    for row in rows:
        if re.match("CE|LNL|EnD|BB", row.name):
            assert row.source == "Hong & Yang 2021, quoted by Barbano et al. 2023"
        elif re.match("vanilla|ReBias|RUBi", row.name):
            assert row.source == "Bahng et al. 2020"
            assert not row.words
        else:
            assert row.source == "Barbano et al. 2023"


def test_a_preset_that_a_table_lacks_is_refused():
    with pytest.raises(ConfigError, match="try PRESET="):
        read_table(ROOT / "configs/table/digits.yaml", preset="tiny")
