"""Debiased positives in the trainer of sentence-transformers, on paraphrases: python examples/sentences/pairs.py

A random BERT of two layers learns which of two sentences belong together; nothing is downloaded. Of the pairs each
meaning has three wordings, so that a batch holds false negatives, which the loss expects: tau_plus is their share.
Needs pip install '.[sentence-transformers]'.
"""

import tempfile
from itertools import permutations
from pathlib import Path

import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, SentenceTransformerTrainer, SentenceTransformerTrainingArguments
from transformers import BertConfig, BertModel, BertTokenizerFast

from contrastive import DebiasedPos
from contrastive.integrations.sentence_transformers import PairLoss
from contrastive.integrations.transformers import PairCurves

MEANINGS = [
    ["a cat sleeps on the sofa", "the sofa has a sleeping cat", "on the sofa a cat is asleep"],
    ["rain fell all night", "it rained until the morning", "the night was wet with rain"],
    ["she sold her old car", "her old car was sold", "the car that she sold was old"],
    ["the shop opens at nine", "at nine the shop is open", "you can shop from nine"],
    ["he plays the piano well", "his piano playing is good", "he is good at the piano"],
    ["the train was late again", "again the train came late", "we waited for the late train"],
    ["milk is in the fridge", "the fridge has milk", "you find the milk in the fridge"],
    ["they won the match", "the match was won by them", "the match ended with their win"],
]


def model(folder: Path) -> SentenceTransformer:
    """A random BERT that knows the words of the pairs."""
    words = sorted({word for wordings in MEANINGS for text in wordings for word in text.split()})
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    (folder / "vocab.txt").write_text("\n".join(vocabulary))
    size = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    BertModel(BertConfig(vocab_size=len(vocabulary), **size)).save_pretrained(folder)
    BertTokenizerFast.from_pretrained(folder).save_pretrained(folder)
    return SentenceTransformer(str(folder), device="cpu")


def nearest(encoder: SentenceTransformer) -> float:
    """Percent of sentences whose nearest other sentence says the same."""
    h = encoder.encode([text for wordings in MEANINGS for text in wordings], convert_to_tensor=True)
    cosine = torch.nn.functional.normalize(h, dim=1)
    cosine = (cosine @ cosine.T).fill_diagonal_(-1)
    meaning = torch.arange(len(h)) // 3
    return 100 * float((meaning[cosine.argmax(1)] == meaning).float().mean())


def main() -> None:
    torch.manual_seed(0)
    pairs = [pair for wordings in MEANINGS for pair in permutations(wordings, 2)]
    columns = {"anchor": [a for a, _ in pairs], "positive": [b for _, b in pairs]}
    with tempfile.TemporaryDirectory() as folder:
        encoder = model(Path(folder))
        before = nearest(encoder)
        loss = PairLoss(encoder, DebiasedPos(temperature=0.1, tau_plus=1 / len(MEANINGS)))
        arguments = SentenceTransformerTrainingArguments(
            output_dir=folder, num_train_epochs=20, per_device_train_batch_size=16, learning_rate=1e-3,
            logging_steps=30, report_to=[], use_cpu=True, disable_tqdm=True,
        )  # fmt: skip
        trainer = SentenceTransformerTrainer(
            model=encoder, args=arguments, train_dataset=Dataset.from_dict(columns), loss=loss
        )
        trainer.add_callback(PairCurves(trainer, loss))
        trainer.train()
        print(f"nearest sentence says the same: {before:.0f} % before, {nearest(encoder):.0f} % after")


if __name__ == "__main__":
    main()
