"""What TensorBoard shows beside and around the curves: groups in order of interest, a sentence for each, a first page.

metrics.jsonl keeps the plain names.
"""

AHEAD = ("test", "train")  # groups that keep their names
OTHERS = {"audit": "test-audit", "similarity": "trained-similarity"}  # of the test split, too

Layout = dict[str, dict[str, list[object]]]

# The "Custom Scalars" page. Each chart takes the tags that a regular expression finds, and every selected run.
AT_A_GLANCE: Layout = {
    "At a glance": {
        "accuracy: kNN and linear probe": ["Multiline", ["^test/knn_top1$", "^test/linear_top1$"]],
        "loss": ["Multiline", ["^train/loss$"]],
        "negatives: estimate beside oracle": [
            "Multiline",
            ["^train-debiasing/negative_estimate$", "^train-debiasing/negative_oracle$"],
        ],
        "positives: estimate beside oracle": [
            "Multiline",
            ["^train-debiasing/positive_estimate$", "^train-debiasing/positive_oracle$"],
        ],
        "what debiasing leaves: estimate minus oracle": ["Multiline", ["^train-debiasing/(negative|positive)_error$"]],
        "alignment and uniformity": ["Multiline", ["^train-pairs/(alignment|uniformity)$"]],
    }
}

DESCRIPTIONS = {  # of a curve or a histogram, by its name in metrics.jsonl
    "train/loss": (
        "Mean of the objective (loss plus regularizers) over the steps since the last point. Different losses "
        "are not comparable."
    ),
    "train/grad_norm": "Length of the whole gradient, mean over the steps since the last point.",
    "train/lr": "Learning rate of the first parameter group at this step.",
    "time/views_per_s": "Views that went through the network each second, of all processes together.",
    "pairs/positive_similarity": "Mean cosine between the projections of two views of an image.",
    "pairs/negative_similarity": "Mean cosine between the projections of different images.",
    "pairs/alignment": "Mean squared distance of two views of an image; 0 = they coincide (Wang & Isola 2020).",
    "pairs/uniformity": (
        "log of the mean of exp(-2 d²) over pairs of images; lower = more evenly spread on the sphere (Wang & "
        "Isola 2020)."
    ),
    "pairs/clamped": "Fraction of anchors whose debiased estimate lies at its floor; there it has no gradient.",
    "pairs/without_positives": "Fraction of anchors without a positive in the batch, as the loss defines one.",
    "pairs/fairkl_empty": "1 if the batch had fewer than two aligned or two conflicting pairs of one class, else 0.",
    "debiasing/false_negatives": (
        "Fraction of the negatives that share the anchor's class: the true τ⁺ of this batch."
    ),
    "debiasing/gradient_on_false_negatives": (
        "Share of the repelling gradient that falls on images of the anchor's class."
    ),
    "debiasing/negative_estimate": (
        "log of the mean of exp(similarity / t) over the true negatives, as the loss estimates it without labels."
    ),
    "debiasing/negative_oracle": "The same as negative_estimate, computed with the labels.",
    "debiasing/negative_error": (
        "negative_estimate - negative_oracle. 0 = debiased exactly; above 0 = false negatives remain; below 0 "
        "= too much was subtracted. A loss that drops false negatives divides by the number of all negatives, "
        "as the authors' code does: it errs by the log of the share of true ones, -0.105 for ten classes of "
        "one size."
    ),
    "debiasing/positive_estimate": (
        "log of the mean of exp(similarity / t) over images of the anchor's class, as the loss estimates it "
        "without labels."
    ),
    "debiasing/positive_oracle": "The same as positive_estimate, computed with the labels.",
    "debiasing/positive_error": (
        "positive_estimate - positive_oracle. Above 0 = the loss takes the anchor's class to be more similar "
        "than it is."
    ),
    "bias/conflicting_pairs": (
        "Pairs of the batch with the same class and different bias: what debiasing terms learn from."
    ),
    "bias/adversary_top1": "Percent of the images whose bias the adversary predicts.",
    "test/rankme": "Effective rank of the features: exp of the entropy of their normalized singular values.",
    "audit/bias_top1": "Percent of the test images whose bias a linear classifier predicts from the features.",
    "similarity/same_class": "Cosines of the test features of two images of one class.",
    "similarity/other_class": "Cosines of the test features of two images of different classes.",
}
BY_PREFIX = {  # where a name has no description of its own: the first prefix that fits
    "test/knn_": (
        "Percent of the test images that the weighted nearest neighbors among the training features classify; "
        "top5: whose class is among their five best guesses."
    ),
    "test/linear_": (
        "Percent of the test images that a linear probe of the frozen features classifies; top5: whose class "
        "is among its five best guesses."
    ),
    "test/few_shot_": "As the linear probe, fitted on a few training images of each class.",
    "test/": "On the test split; `protocol` in result.json says how it is computed.",
    "terms/": "Value of one term of the objective, its weight included.",
    "audit/similarity/": "Mean cosine of this kind of pair of test images.",
    "audit/": "Percent right within groups of test images by class and bias.",
    "similarity/": "Cosines of the test features. positive = same class, aligned = same bias.",
}


def tensorboard_tag(key: str) -> str:
    """The name in TensorBoard, which sorts groups by name: test, train, then diagnostics as `train-debiasing`, ...

    A hyphen, because TensorBoard sorts an underscore like a slash: train_debiasing would come before train/loss.
    """
    group, _, name = key.partition("/")
    if group in AHEAD or not name:
        return key
    return f"{OTHERS.get(group, f'train-{group}')}/{name}"


def description(key: str) -> str:
    """What a curve or a histogram shows, by its name in metrics.jsonl; empty for one that nobody described."""
    prefixes = [text for prefix, text in BY_PREFIX.items() if key.startswith(prefix)]
    return DESCRIPTIONS.get(key) or next(iter(prefixes), "")
