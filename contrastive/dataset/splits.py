"""Named splits from a training and a test split, and the facts every dataset states about them."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from contrastive.errors import ConfigError, check_at_least
from contrastive.listing.found import Listing
from contrastive.seeding import generator
from contrastive.text import printable
from contrastive.types import LEVELS, Data, Split

VAL_FRACTION = 0.1
TEST_FRACTION, CLASS_TEST_FRACTION = 0.1, 0.2  # of images without labels, and of each class
MOST_TEST = 10_000  # test images that are drawn
BY_PLACE = "their places"  # how they are chosen where they have no names
SPLIT_SEED = 0  # the same validation images in every run, whatever its seed
PASS = 2**25  # bytes per step of a pass over pixels

ChannelStats = tuple[tuple[float, ...], tuple[float, ...]]  # mean and standard deviation of each channel


def stratified(label: Tensor, fraction: float, *key: object, rank: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Split the labeled entries per class; the key fixes the draw.

    Args:
        rank: (N,), of which the lowest of each class are held out, in place of a draw.

    Returns:
        indices of the rest and of the `fraction` that is held out (at least one entry of each class that has two),
        sorted int64.
    """
    rng = generator("cpu", *key)
    drawn = []
    by_class = torch.argsort(label, stable=True)[int((label < 0).sum()) :]
    for members in by_class.split(torch.unique(label[label >= 0], return_counts=True)[1].tolist()):
        order = torch.randperm(len(members), generator=rng) if rank is None else rank[members].argsort()
        drawn.append(members[order[: min(len(members) - 1, max(1, round(fraction * len(members))))]])
    held_out = torch.zeros(len(label), dtype=torch.bool)
    held_out[torch.cat(drawn)] = True
    return ((label >= 0) & ~held_out).nonzero().squeeze(1), held_out.nonzero().squeeze(1)


def divided(label: Tensor, rank: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Rows to train and rows to test on, where nothing tells: of each class a fixed fifth or, where no image has a
    label, a fixed tenth; at most 10,000 images.

    Args:
        rank: as in `stratified`, such as a hash of each file's name; None = a draw.
    """
    is_known, n = label >= 0, max(1, len(label))
    if is_known.any():
        fraction = min(CLASS_TEST_FRACTION, MOST_TEST / int(is_known.sum()))
    else:
        label, fraction = torch.zeros_like(label), min(max(TEST_FRACTION, 2 / n), MOST_TEST / n)  # one has no pairs
    _, tested = stratified(label, fraction, SPLIT_SEED, "test", rank=rank)
    kept = ~torch.isin(torch.arange(len(label)), tested)
    return kept.nonzero().squeeze(1), tested


def drawn(n: int, of: int, by: str, *, has_labels: bool) -> str:
    """How the test images were chosen by `divided`, for the report and the facts of a run."""
    part = "fifth of each class" if has_labels else "tenth"
    return f"a fixed {part}{f', at most {MOST_TEST:,}' * (n >= MOST_TEST)}, chosen by {by}: {n:,} of {of:,} images"


def first_per_class(split: Split, n: int | None) -> Split:
    """The first n images of each class, and those without a label; None = all.

    Raises:
        ConfigError: n is below 2, too few to hold one out for validation.
    """
    if n is None:
        return split
    check_at_least("dataset.per_class", n, 2, example=500)
    return _first(split, dict.fromkeys(torch.unique(split.label[split.label >= 0]).tolist(), n))


def long_tail(split: Split, imbalance: float | None) -> Split:
    """The first images of each class, fewer for each next class: from as many as the smallest class has down to a
    fraction 1 / imbalance of them in equal ratios (Cui et al. 2019, §5.1). Images without a label stay; None = all.

    Probes are fitted and selected on the long tail, too; the test split stays as it is.

    Raises:
        ConfigError: imbalance below 1.
    """
    if imbalance is None:
        return split
    check_at_least("dataset.imbalance", imbalance, 1, example=10)
    classes, count = torch.unique(split.label[split.label >= 0], return_counts=True)
    most = int(count.min())
    falling = {c: round(most * imbalance ** (-i / max(1, len(classes) - 1))) for i, c in enumerate(classes.tolist())}
    return _first(split, falling)


def _first(split: Split, counts: Mapping[int, int]) -> Split:
    """The first images of each class, so many, and those without a label."""
    keep = split.label < 0
    for c, n in counts.items():
        keep[(split.label == c).nonzero().squeeze(1)[:n]] = True
    return split.select(keep)


def channel_stats(image: Tensor) -> ChannelStats:
    """Mean and standard deviation per channel of uint8 or uint16 (N, K, H, W), scaled to [0, 1], by histograms.

    Raises:
        ConfigError: images of another dtype.
    """
    if image.dtype not in LEVELS:
        raise ConfigError(
            f"images are {image.dtype} and must be uint8 or uint16: try (x * 255).round().to(torch.uint8) of images in "
            "[0, 1]"
        )
    n_channels, levels = image.shape[1], LEVELS[image.dtype]
    count = torch.zeros(n_channels, levels, dtype=torch.int64)
    step = max(1, PASS // image[:1].nbytes)
    for start in range(0, len(image), step):
        chunk = image[start : start + step]
        for channel in range(n_channels):
            values = chunk[:, channel].flatten()
            count[channel] += torch.bincount(values if levels == 256 else values.int(), minlength=levels)
    return stats_of_levels(count)


def stats_of_levels(counts: Tensor) -> ChannelStats:
    """Mean and standard deviation per channel, scaled to [0, 1], of (K, levels) int64: how often each level occurs."""
    level = torch.arange(counts.shape[1], dtype=torch.float64) / (counts.shape[1] - 1)
    mean, std = [], []
    for count in counts:
        density = count / count.sum(dtype=torch.float64)
        mu = (density * level).sum()
        mean.append(mu.item())
        std.append((density * (level - mu) ** 2).sum().sqrt().item())
    return tuple(mean), tuple(std)


def check_data(data: Data, name: str) -> None:
    """Check what every run needs of its images and labels; `check_dataset` checks more.

    Args:
        name: of whom they are.

    Raises:
        ConfigError: channels come last, labels are no tensor of one for each image, or there are more than names.
    """
    for key, split in (("pretrain", data.pretrain), ("test", data.test)):
        shape, n = tuple(split.image.shape), len(split)
        if len(shape) != 4 or shape[3] <= 4 < shape[1]:
            raise ConfigError(
                f"{name} gives images of {key} {shape}: try (N, K, H, W), as by image.permute(0, 3, 1, 2)"
            )
        for what, numbers, names in (("labels", split.label, data.classes), ("biases", split.bias, data.biases)):
            if numbers is None:
                continue
            fits = isinstance(numbers, Tensor) and tuple(numbers.shape) == (n,)
            if not fits or (numbers >= len(names)).any():
                raise ConfigError(
                    f"{name} gives {what} of {key} that cannot be: try an int64 tensor of one for each of {n} images, "
                    f"-1 to {len(names) - 1}, a number for each name"
                )


def name_splits(
    train: Split,
    test: Split,
    *,
    classes: tuple[str, ...],
    hold_out: bool,
    stats: ChannelStats,
    biases: tuple[str, ...] = (),
    val_view: Split | None = None,
    own_val: Split | None = None,
    facts: dict[str, str] | None = None,
    digest: str | None = None,
) -> Data:
    """Data whose probe_val is a fixed stratified tenth of the labeled training images; without classes it is empty.

    Reads no pixel unless hold_out or val_view copies a part of the images.

    Args:
        hold_out: leave that tenth out of `pretrain`.
        val_view: the training images as validation shows them (recolored); None = unchanged.
        own_val: validation images that are no training images, in place of the tenth.
        digest: identifies the splits, see `fingerprint`; None = computed when it is needed.

    Raises:
        ConfigError: a class has fewer than two labeled training images and there is no `own_val`, or the test split is
            empty.
    """
    count = torch.bincount(train.label[train.label >= 0], minlength=len(classes))
    if own_val is None and (count < 2).any():
        poor = [name for name, n in zip(classes, count.tolist(), strict=True) if n < 2]
        raise ConfigError(
            f"class {', '.join(poor[:5])}{' and others' if len(poor) > 5 else ''} has fewer than two labeled training "
            "images, too few to hold one out for validation: add images to it or remove the class"
        )
    if len(test) == 0:
        raise ConfigError("the test split is empty: add images under test/")
    nothing = torch.empty(0, dtype=torch.int64)
    if own_val is not None:
        hold_out, probe_train, val = False, (train.label >= 0).nonzero().squeeze(1), nothing
    elif classes:
        probe_train, val = stratified(train.label, VAL_FRACTION, SPLIT_SEED, "probe_val")
    else:
        probe_train, val = nothing, nothing
    val_split = own_val
    if hold_out or (val_view is not None and own_val is None):
        val_split = (train if val_view is None else val_view).select(val)
    if hold_out:
        keep = ~torch.isin(torch.arange(len(train)), val)
        train, probe_train = train.select(keep), torch.cumsum(keep, 0)[probe_train] - 1
    return Data(
        pretrain=train,
        probe_train=probe_train,
        probe_val_index=val if val_split is None else None,
        probe_val_split=val_split,
        test=test,
        classes=classes,
        mean=stats[0],
        std=stats[1],
        biases=biases,
        facts=facts or {},
        digest=digest,
    )


def as_data(
    listed: Listing[Split], *, stats: ChannelStats, facts: Mapping[str, str], hold_out: bool, images: Mapping[str, str]
) -> Data:
    """The dataset of what was listed, with the report on it; further arguments and errors as of `name_splits`.

    Args:
        images: {train, val, test: a hash of its images}; of splits that are parts of another one nothing.
    """
    hold_out = hold_out and bool(listed.classes) and "val" not in listed.splits  # listed ones are no training images
    digest = hashlib.sha256(repr((hold_out, sorted(images.items()))).encode())
    for key, split in sorted(listed.splits.items()):
        for value in (split.label, split.bias):
            digest.update(repr((key, None if value is None else len(value))).encode())
            digest.update(b"" if value is None else value.numpy().data)
    data = name_splits(
        listed.splits["train"],
        listed.splits["test"],
        classes=tuple(map(printable, listed.classes)),
        hold_out=hold_out,
        stats=stats,
        biases=tuple(map(printable, listed.biases)),
        own_val=listed.splits.get("val"),
        facts=dict(facts),
        digest=digest.hexdigest(),
    )
    return replace(data, found=listed._replace(notes=(*listed.notes, *_never_right(data))).found())


def _never_right(data: Data) -> list[str]:
    """A sentence of the test images whose class has no training image, if there are any."""
    trained = data.pretrain.label.unique()
    odd = data.test.label[(data.test.label >= 0) & ~torch.isin(data.test.label, trained)]
    if not len(odd):
        return []
    names = ", ".join(data.classes[i] for i in odd.unique().tolist()[:5])
    return [f"{len(odd):,} of {len(data.test):,} test images are of classes without training images: {names}"]


def judged_on_training(data: Data, draw: int) -> Data:
    """The data with a held-out part of the training images in place of the test images, for searches.

    The part is a stratified tenth that `draw` fixes, left out of `pretrain`; of the rest another tenth validates. Where
    validation images have a split of their own (left out already, or recolored) it is that split, whatever the draw.

    Raises:
        ConfigError: there are no classes, or a class has too few images.
    """
    if not data.classes:
        raise ConfigError("held_out needs labels, and these images have none: try held_out=null")
    train, own = data.pretrain, data.probe_val_split
    if own is None:
        _, judged = stratified(train.label, VAL_FRACTION, SPLIT_SEED, "held_out", draw)
        keep = ~torch.isin(torch.arange(len(train)), judged)
        train, test = train.select(keep), train.select(judged)
    else:
        test = own
    stats = (data.mean, data.std)
    facts = {**data.facts, "judged_on": f"held-out training images, draw {draw}"}
    digest = hashlib.sha256(f"{fingerprint(data)} {draw}".encode()).hexdigest()
    return name_splits(
        train, test, classes=data.classes, hold_out=False, stats=stats, biases=data.biases, facts=facts, digest=digest
    )


def fingerprint(data: Data) -> str:
    """The digest that the dataset supplied, or sha256 over images, labels and biases of the training and test split."""
    if data.digest is not None:
        return data.digest
    splits = (data.pretrain, data.test)
    return tensor_hash(*(value for split in splits for value in (split.image, split.label, split.bias)))


def tensor_hash(*tensors: Tensor | None) -> str:
    """sha256 over shapes, types and values of those that are there."""
    digest = hashlib.sha256()
    for value in (value for value in tensors if value is not None):
        digest.update(repr((tuple(value.shape), value.dtype)).encode())
        digest.update(value.contiguous().numpy().data)
    return digest.hexdigest()
