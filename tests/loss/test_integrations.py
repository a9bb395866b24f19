"""The adapters against the real libraries, where they are installed: values, gradients, and their own trainers."""

import csv
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import contrastive
from contrastive.experiment.make import make

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
B, D = 6, 5
ANCHORS = ["a cat sits on the mat", "the dog runs", "a kitten rests", "the hound moves on grass"] * 3
POSITIVES = ["a kitten rests on a rug", "a hound moves", "the cat sits", "a dog runs on the lawn"] * 3
WORDS = sorted({word for text in ANCHORS + POSITIVES for word in text.split()})


def leaf(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


def value_and_gradients(value: Tensor, leaves: list[Tensor]) -> tuple[Tensor, ...]:
    return value.detach(), *torch.autograd.grad(value, leaves)


@pytest.mark.parametrize(("name", "has_bias"), [("ClipLoss", False), ("SigLipLoss", True), ("SigLipLoss", False)])
def test_losses_of_open_clip(name: str, has_bias: bool) -> None:
    theirs = getattr(pytest.importorskip("open_clip.loss"), name)()
    from contrastive.integrations.open_clip import ClipLoss

    mine = ClipLoss(contrastive.NTXent() if name == "ClipLoss" else contrastive.Sigmoid())
    image, text = leaf(B, D), leaf(B, D, seed=1)
    log_scale, bias = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (1.7, -2.0))
    leaves = [image, text, log_scale, *([bias] if has_bias else [])]
    found = []
    for loss in (theirs, mine):
        call = {"image_features": F.normalize(image, dim=-1), "text_features": F.normalize(text, dim=-1)}
        call |= {"logit_scale": log_scale.exp()}
        call |= {"logit_bias": bias if has_bias else None} if name == "SigLipLoss" else {}
        found.append(value_and_gradients(loss(**call, output_dict=True)["contrastive_loss"], leaves))
    torch.testing.assert_close(found[1], found[0], rtol=1e-12, atol=1e-13)
    debiased = ClipLoss(contrastive.DebiasedPos(tau_plus=0.3), gather=False)(image, text, log_scale.exp())
    (gradient,) = torch.autograd.grad(debiased, log_scale)
    assert gradient.isfinite()
    assert gradient != 0


@pytest.mark.parametrize("bank", [0, (8, D)])
def test_loss_of_lightly(bank: Any) -> None:
    lightly = pytest.importorskip("lightly.loss")
    from contrastive.integrations.lightly import PairLoss

    theirs = lightly.NTXentLoss(temperature=0.3, memory_bank_size=bank)
    mine = PairLoss(contrastive.NTXent(temperature=0.3), memory_bank_size=bank)
    mine.memory_bank.bank = theirs.memory_bank.bank.clone()  # drawn at random
    for seed in range(3):
        out0, out1 = leaf(B, D, seed=seed).float(), leaf(B, D, seed=seed + 9).float()
        leaves = [out0.detach().requires_grad_(), out1.detach().requires_grad_()]
        expected = value_and_gradients(theirs(*leaves), leaves[: 1 if bank else 2])
        torch.testing.assert_close(value_and_gradients(mine(*leaves), leaves[: 1 if bank else 2]), expected)


@pytest.mark.parametrize("name", ["lejepa", "visreg"])
def test_regularizations_of_lightly(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = pytest.importorskip(f"lightly.loss.{name}_loss")
    mine, z = make(f"loss/{name}", lam=1.0), leaf(B, 3, D)
    directions = mine.directions(z).T
    monkeypatch.setattr(torch, "randn", lambda *shape, **options: directions.clone())
    views = z.transpose(0, 1)
    if name == "lejepa":
        expected = theirs.SIGReg()(views)
    else:
        expected = theirs.visreg_shape_loss(views, 4096) + theirs.visreg_scale_loss(views)
        expected = expected + theirs.visreg_center_loss(views)
    found = value_and_gradients(mine(z), [z])  # they compute knots and quantiles in float32
    torch.testing.assert_close(found, value_and_gradients(expected, [z]), rtol=1e-5, atol=1e-6)


class Embeds(nn.Module):
    """What a loss of sentence-transformers needs of a model: the column it is given is the embedding."""

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"sentence_embedding": features["column"]}


def pair_loss(loss: contrastive.Loss, columns: list[Tensor], across: str | None, **options: Any) -> Tensor:
    pytest.importorskip("sentence_transformers")
    from contrastive.integrations.sentence_transformers import PairLoss

    model = options.pop("model", Embeds())
    whole = PairLoss(model, loss, across=across, **options)
    value: Tensor = whole([{"column": column} for column in columns], None)
    return value


CASES = [(across, n_columns) for across in ("first", "both") for n_columns in (2, 3, 4)]
SYMMETRIC = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}


@pytest.mark.parametrize(("across", "n_columns"), CASES)
def test_ranking_loss_of_sentence_transformers(across: str, n_columns: int) -> None:
    losses = pytest.importorskip("sentence_transformers.losses")
    columns = [leaf(B, D, seed=seed) for seed in range(n_columns)]
    # scale 20 is theirs, where torch's softplus is linear and so exact to 1e-9 alone
    for scale, close in ((20, 1e-8), (2, 1e-12)):
        theirs = losses.MultipleNegativesRankingLoss(None, scale=scale, **(SYMMETRIC if across == "both" else {}))
        expected = value_and_gradients(theirs.compute_loss_from_embeddings(columns, None), columns)
        found = value_and_gradients(pair_loss(contrastive.NTXent(temperature=1 / scale), columns, across), columns)
        torch.testing.assert_close(found, expected, rtol=close, atol=close)


class Drops(nn.Module):
    """A model with dropout, which notes how many rows it gets."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.sizes = nn.Linear(D, D).double(), list[int]()

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        self.sizes.append(len(features["column"]))
        return {"sentence_embedding": F.dropout(self.linear(features["column"]), 0.3)}


def test_mini_batches_have_the_gradient_of_the_batch_and_their_own_dropout() -> None:
    columns, model, loss = [leaf(B, D, seed=seed) for seed in range(3)], Drops(), contrastive.DebiasedPos(tau_plus=0.1)
    torch.manual_seed(3)
    parts = [torch.cat([model({"column": part})["sentence_embedding"] for part in c.split(4)]) for c in columns]
    expected = value_and_gradients(pair_loss(loss, parts, "both"), [*columns, *model.parameters()])
    model.sizes = []
    torch.manual_seed(3)
    found = pair_loss(loss, columns, "both", model=model, mini_batch_size=4)
    assert model.sizes == [4, 2] * 3
    torch.testing.assert_close(value_and_gradients(found, [*columns, *model.parameters()]), expected)
    assert sorted(model.sizes) == [2] * 6 + [4] * 6  # each once more, on the way back


def test_a_single_column_is_two_views_or_a_sentence_of_the_adapter() -> None:
    column = leaf(B, D)
    expected = contrastive.NTXent()(torch.stack([column, column], 1))
    assert torch.equal(pair_loss(contrastive.NTXent(), [column], None), expected)
    with pytest.raises(contrastive.ConfigError, match=r"compares two columns .* PairLoss\(model, loss, across=None\)$"):
        pair_loss(contrastive.NTXent(), [column], "first")


@pytest.fixture
def bert(tmp_path: Path) -> Any:
    """A random BERT of two layers with words of its own; nothing is downloaded."""
    st = pytest.importorskip("sentence_transformers")
    transformers = pytest.importorskip("transformers")
    (tmp_path / "bert").mkdir()
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (tmp_path / "bert/vocab.txt").write_text("\n".join(vocabulary))
    size = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    torch.manual_seed(0)
    model = transformers.BertModel(transformers.BertConfig(vocab_size=len(vocabulary), **size))
    model.save_pretrained(tmp_path / "bert")
    transformers.BertTokenizerFast.from_pretrained(tmp_path / "bert").save_pretrained(tmp_path / "bert")
    return st.SentenceTransformer(str(tmp_path / "bert"), device="cpu")


def own_lines(trainer: Any) -> list[dict[str, float]]:
    """What a Hugging Face Trainer has logged beside our curves, without the times."""
    lines = [line for line in trainer.state.log_history if "pairs/push_ratio" not in line]
    return [{k: v for k, v in line.items() if not k.endswith(("_runtime", "_per_second"))} for line in lines]


def curves(trainer: Any) -> list[dict[str, float]]:
    return [line for line in trainer.state.log_history if "pairs/push_ratio" in line]


@pytest.mark.parametrize(
    ("loss", "columns", "across"),
    [
        (contrastive.DebiasedPos(temperature=0.05, tau_plus=0.3), {"anchor": ANCHORS, "positive": POSITIVES}, "first"),
        (contrastive.NTXent(), {"anchor": ANCHORS, "positive": POSITIVES, "negative": POSITIVES[::-1]}, "both"),
        (contrastive.NTXent(), {"sentence": ANCHORS}, None),
        (contrastive.SupCon(), {"sentence": ANCHORS, "label": [0, 1, 0, 1] * 3}, "first"),
    ],
)
def test_the_trainer_of_sentence_transformers(
    bert: Any, tmp_path: Path, loss: contrastive.Loss, columns: Any, across: str | None
) -> None:
    st, datasets = pytest.importorskip("sentence_transformers"), pytest.importorskip("datasets")
    from contrastive.integrations.sentence_transformers import PairLoss
    from contrastive.integrations.transformers import PairCurves

    arguments = st.SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path / "run"), max_steps=4, per_device_train_batch_size=6, logging_steps=2, report_to=[],
        learning_rate=1e-2, use_cpu=True,
    )  # fmt: skip
    whole, data = PairLoss(bert, loss, across=across), datasets.Dataset.from_dict(columns)
    trainer = st.SentenceTransformerTrainer(model=bert, args=arguments, train_dataset=data, loss=whole)
    trainer.add_callback(PairCurves(trainer, whole))
    before = [p.detach().clone() for p in bert.parameters()]
    trainer.train()
    assert any(not torch.equal(a, b) for a, b in zip(before, bert.parameters(), strict=True))
    assert [line["step"] for line in curves(trainer)] == [2, 4]
    assert whole.get_config_dict()["loss"] == type(loss).__name__
    assert whole.get_config_dict()["temperature"] == loss.temperature
    bert.save(str(tmp_path / "saved"))
    assert "PairLoss" in (tmp_path / "saved/README.md").read_text()


@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_callback_of_lightning(tmp_path: Path, accumulate: int) -> None:
    lightning = pytest.importorskip("lightning")
    loggers = pytest.importorskip("lightning.pytorch.loggers")
    from contrastive.integrations.lightning import PairCurves

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.loss = nn.Linear(4, D), contrastive.DebiasedNeg()

        def training_step(self, batch: Any, index: int) -> Tensor:
            x, label = batch
            loss = self.loss(self.net(x), self.net(x + 0.1), label)
            self.log("train_loss", loss)
            return loss

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    images = torch.randn(48, 4, generator=torch.Generator().manual_seed(0))
    data = torch.utils.data.TensorDataset(images, torch.arange(48) % 3)

    def trained(folder: str, *callbacks: Any) -> tuple[Any, Module, list[dict[str, float]]]:
        torch.manual_seed(0)
        module, logger = Module(), loggers.CSVLogger(tmp_path / folder)
        trainer = lightning.Trainer(
            max_epochs=1, accelerator="cpu", logger=logger, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, callbacks=list(callbacks), default_root_dir=tmp_path, log_every_n_steps=1,
            accumulate_grad_batches=accumulate,
        )  # fmt: skip
        trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=6))
        with (Path(logger.log_dir) / "metrics.csv").open() as file:
            rows = [{k: float(v) for k, v in row.items() if v} for row in csv.DictReader(file)]
        return trainer, module, rows

    _, plain, expected = trained("plain")
    trainer, module, rows = trained("curves", PairCurves(every=2))
    assert [row for row in rows if "pairs/push_ratio" not in row] == expected
    assert all(map(torch.equal, module.parameters(), plain.parameters()))
    points = [row for row in rows if "pairs/push_ratio" in row]
    assert [row["step"] for row in points] == [0, 2, 4, 6][: 4 // accumulate]
    assert len({row["debiasing/negative_estimate"] for row in points}) == len(points)
    metrics = trainer.callback_metrics
    assert metrics["pairs/push_ratio"].item() == pytest.approx(points[-1]["pairs/push_ratio"])
    assert 0 < metrics["pairs/push_ratio"] <= 1.0001
    assert {"pairs/clamped", "debiasing/false_negatives", "debiasing/negative_estimate"} <= metrics.keys()
    assert module.loss.curves is None


def test_the_callback_of_the_hugging_face_trainer(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    from contrastive.integrations.transformers import PairCurves

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.loss = nn.Linear(4, D), contrastive.NTXent()

        def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
            return {"loss": self.loss(self.net(x), self.net(x + 0.1), labels)}

    rows = [{"x": torch.randn(4), "labels": i % 3} for i in range(24)]

    def trained(*, with_curves: bool) -> Any:
        torch.manual_seed(0)
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path), max_steps=5, per_device_train_batch_size=6, logging_steps=2, report_to=[],
            logging_first_step=True, use_cpu=True,
        )  # fmt: skip
        model = Model()
        trainer = transformers.Trainer(model=model, args=arguments, train_dataset=rows, eval_dataset=rows)
        if with_curves:
            trainer.add_callback(PairCurves(trainer, model))
        trainer.train()
        return trainer

    plain, trainer = trained(with_curves=False), trained(with_curves=True)
    assert [line["step"] for line in own_lines(trainer) if "grad_norm" in line] == [1, 2, 4]
    assert own_lines(trainer) == own_lines(plain)
    assert all(map(torch.equal, trainer.model.parameters(), plain.model.parameters()))
    assert [line["step"] for line in curves(trainer)] == [2, 4]
    assert all(line["pairs/push_ratio"] == pytest.approx(1, abs=1e-5) for line in curves(trainer))
    assert all("debiasing/false_negatives" in line for line in curves(trainer))
