"""The adapters against the real libraries, where they are installed: values, gradients, and their own trainers."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import contrastive
from contrastive.loss.byol import BYOL
from contrastive.loss.simsiam import SimSiam

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
B, D = 6, 5
ANCHORS = ["a cat sits on the mat", "the dog runs", "a kitten rests", "the hound moves on grass"] * 3
POSITIVES = ["a kitten rests on a rug", "a hound moves", "the cat sits", "a dog runs on the lawn"] * 3
WORDS = sorted({word for text in ANCHORS + POSITIVES for word in text.split()})


def leaf(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).requires_grad_()


def value_and_gradients(value: Tensor, leaves: list[Tensor]) -> tuple[Tensor, ...]:
    return value.detach(), *torch.autograd.grad(value, leaves)


@pytest.mark.parametrize("name", ["ClipLoss", "SigLipLoss"])
def test_losses_of_open_clip(name: str) -> None:
    theirs = getattr(pytest.importorskip("open_clip.loss"), name)()
    from contrastive.integrations.open_clip import ClipLoss

    mine = ClipLoss(contrastive.NTXent() if name == "ClipLoss" else contrastive.Sigmoid())
    image, text = leaf(B, D), leaf(B, D, seed=1)
    log_scale, bias = (torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in (1.7, -2.0))
    leaves = [image, text, log_scale, *([bias] if name == "SigLipLoss" else [])]
    found = []
    for loss in (theirs, mine):
        call = {"image_features": F.normalize(image, dim=-1), "text_features": F.normalize(text, dim=-1)}
        call |= {"logit_scale": log_scale.exp(), **({"logit_bias": bias} if name == "SigLipLoss" else {})}
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


@pytest.mark.parametrize(("mine", "scale", "offset"), [(SimSiam(), 1, 0), (BYOL(), 4, 4)])
def test_losses_of_lightly_against_a_teacher(mine: contrastive.Loss, scale: int, offset: int) -> None:
    theirs = pytest.importorskip("lightly.loss").NegativeCosineSimilarity()
    prediction, target = leaf(B, 2, D), leaf(B, 2, D, seed=1).detach()
    mean = 0.5 * (theirs(prediction[:, 0], target[:, 1]) + theirs(prediction[:, 1], target[:, 0]))
    found = value_and_gradients(mine(prediction, across="both", keys=target), [prediction])
    torch.testing.assert_close(found, value_and_gradients(offset + scale * mean, [prediction]))


class Embeds(nn.Module):
    """What a loss of sentence-transformers needs of a model: the column it is given is the embedding."""

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        return {"sentence_embedding": features["column"]}


@pytest.mark.parametrize(("across", "n_columns"), [("first", 2), ("first", 3), ("first", 4), ("both", 2)])
def test_ranking_loss_of_sentence_transformers(across: str, n_columns: int) -> None:
    losses = pytest.importorskip("sentence_transformers.losses")
    from contrastive.integrations.sentence_transformers import PairLoss

    columns = [leaf(B, D, seed=seed) for seed in range(n_columns)]
    directions = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"}
    theirs = losses.MultipleNegativesRankingLoss(None, **(directions if across == "both" else {}))
    expected = value_and_gradients(theirs.compute_loss_from_embeddings(columns, None), columns)
    mine = PairLoss(Embeds(), contrastive.NTXent(temperature=0.05), across=across)
    found = value_and_gradients(mine([{"column": column} for column in columns], None), columns)
    torch.testing.assert_close(found, expected, rtol=1e-8, atol=1e-8)  # softplus of torch is linear from 20 on


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


@pytest.mark.parametrize(
    ("loss", "columns"),
    [
        (contrastive.DebiasedPos(temperature=0.05, tau_plus=0.3), {"anchor": ANCHORS, "positive": POSITIVES}),
        (contrastive.NTXent(), {"anchor": ANCHORS, "positive": POSITIVES, "negative": POSITIVES[::-1]}),
        (contrastive.SupCon(), {"sentence": ANCHORS, "label": [0, 1, 0, 1] * 3}),
    ],
)
def test_the_trainer_of_sentence_transformers(bert: Any, tmp_path: Path, loss: contrastive.Loss, columns: Any) -> None:
    st, datasets = pytest.importorskip("sentence_transformers"), pytest.importorskip("datasets")
    from contrastive.integrations.sentence_transformers import PairLoss
    from contrastive.integrations.transformers import PairCurves

    arguments = st.SentenceTransformerTrainingArguments(
        output_dir=str(tmp_path / "run"), max_steps=2, per_device_train_batch_size=6, logging_steps=1, report_to=[],
        learning_rate=1e-2, use_cpu=True,
    )  # fmt: skip
    before = [p.detach().clone() for p in bert.parameters()]
    whole = PairLoss(bert, loss)
    trainer = st.SentenceTransformerTrainer(
        model=bert, args=arguments, train_dataset=datasets.Dataset.from_dict(columns), loss=whole
    )
    trainer.add_callback(PairCurves(trainer, whole))
    trainer.train()
    assert any(not torch.equal(a, b) for a, b in zip(before, bert.parameters(), strict=True))
    curves = [line for line in trainer.state.log_history if "pairs/push_ratio" in line]
    assert [line["step"] for line in curves] == [1, 2]
    assert all(line["pairs/push_ratio"] > 0 for line in curves)
    assert whole.get_config_dict()["loss"] == type(loss).__name__
    assert whole.get_config_dict()["temperature"] == loss.temperature
    bert.save(str(tmp_path / "saved"))
    card = (tmp_path / "saved/README.md").read_text()
    assert "PairLoss" in card
    assert "@software{contrastive" in card


def test_the_callback_of_lightning(tmp_path: Path) -> None:
    lightning = pytest.importorskip("lightning")
    from contrastive.integrations.lightning import PairCurves

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net, self.loss = nn.Linear(4, D), contrastive.DebiasedNeg()

        def training_step(self, batch: Any, index: int) -> Tensor:
            x, label = batch
            return self.loss(self.net(x), self.net(x + 0.1), label)

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), lr=0.1)

    data = torch.utils.data.TensorDataset(torch.randn(24, 4), torch.arange(24) % 3)
    module = Module()
    trainer = lightning.Trainer(
        max_epochs=1, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=[PairCurves(every=2)], default_root_dir=tmp_path,
    )  # fmt: skip
    trainer.fit(module, torch.utils.data.DataLoader(data, batch_size=6))
    metrics = trainer.callback_metrics
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
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path),
        max_steps=4,
        per_device_train_batch_size=6,
        logging_steps=2,
        report_to=[],
        use_cpu=True,
    )
    model = Model()
    trainer = transformers.Trainer(model=model, args=arguments, train_dataset=rows)
    trainer.add_callback(PairCurves(trainer, model))
    trainer.train()
    curves = [line for line in trainer.state.log_history if "pairs/push_ratio" in line]
    assert [line["step"] for line in curves] == [2, 4]
    assert all(line["pairs/push_ratio"] == pytest.approx(1, abs=1e-5) for line in curves)
    assert all("debiasing/false_negatives" in line for line in curves)
