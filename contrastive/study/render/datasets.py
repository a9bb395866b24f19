"""What is said of a comparison over data sets: the verdicts over all beside those on each."""

from collections.abc import Sequence
from dataclasses import replace

from contrastive.study.compare.plan import AUTO, plan_from_dict
from contrastive.study.render.comparison import protocol_of_one, times
from contrastive.study.render.effects import Record, effects, first_part, plan_of
from contrastive.study.render.sentences import sentences
from contrastive.text import format_grid

LEGEND = (
    "effect: mean difference with its interval; over the data sets it is what other data sets like these would give. "
    "The intervals of one data set are right together in 95 % of cases, and so are those over the data sets. better or "
    "worse: 0 is outside; equal: it lies within the margin. worse, within, better: how likely the method is worse by "
    "more than the margin, within it, better by more. found: the difference that n rows find with 80 %; over the data "
    "sets they are the rows."
)
TICKS = "each data set"


def command(record: Record) -> str:
    """What to type for this comparison."""
    plan, parts = plan_of(record), record["datasets"].values()
    common = [word for word in plan.common if not word.startswith("dataset=")]
    hours = sum(plan_from_dict(part["comparison"]["plan"]).hours for part in parts)
    common.append(f"dataset={','.join(record['datasets'])}")
    whole = replace(plan, common=tuple(common), hours=hours, budget=AUTO if hours else plan.budget)
    return whole.command(first_part(record)["comparison"].get("folders", ()))


def notes(record: Record) -> list[str]:
    """What lies in the same folder and is not in the verdict, which a reader has to know."""
    return [f"not in this verdict, though it lies in the same folder: {name}" for name in record["left_out"]]


def protocol_text(record: Record) -> str:
    """What was run and how it was judged: a paragraph for the methods section of a paper."""
    searched = [protocol_of_one(part) for part in record["datasets"].values()]
    each = " ".join(f"{name}: {text}" for name, text in zip(record["datasets"], searched, strict=True))
    each = f"The same was done on each. {searched[0]}" if len(set(searched)) == 1 else each
    again = record["looks"] - 1
    several = f" Data sets or plan were changed and judged again {times(again)}." if again else ""
    return (
        f"Protocol: the methods were compared on {_listed(list(record['datasets']))}. {each} Over the data sets the "
        "mean difference has the interval of a paired t-test whose rows are data sets (simultaneous 95 %, Bonferroni "
        f"over pairs): it allows for other data sets like these.{several}"
    )


def _listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def markdown(record: Record) -> str:
    """The whole page."""
    parts = [
        f"{record['title']}: test split, accuracies in percent.",
        "\n".join(f"- {text}" for text in sentences(record)), format_grid(effects(record)), LEGEND,
        "\n".join(f"- {text}" for text in notes(record)), protocol_text(record), f"Command: `{command(record)}`",
    ]  # fmt: skip
    return "\n\n".join(part for part in parts if part)
