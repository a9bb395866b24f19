"""Pages of the site that are made from docstrings, YAMLs and committed records: one for each loss, and a leaderboard.

What else a page says of a loss stands in the docstring of its file, in a list of fields:

    :title:    what the loss is called in the field
    :data:     what it is for, among `DATA`; the first is what it is listed under
    :when:     when to choose it, one sentence
    :memory:   what grows with the batch B, the projection's dimensions D, the features' F or the N training images
    :checked:  authors, equal to the authors' code; or formula, to a slow transcription of the formula
    :cite:     keys of docs/references.bib, or addresses of papers
    :related:  other losses
"""

import inspect
import re
import shlex
import sys
import textwrap
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

import yaml

from contrastive.config.reference import Setting, derivation, docstring_of, option_files, settings_in, target_of
from contrastive.config.targets import load_target
from contrastive.loss.base import SelfSupervisedLoss, SupervisedContrastiveLoss
from contrastive.report.frame import record_frame
from contrastive.report.judge import interval_text
from contrastive.report.record import read_record
from contrastive.report.statistics import paired_estimate
from contrastive.run.figures import lower_is_better
from contrastive.study.compare.outcome import AS_IT_COMES
from contrastive.text import clock, spread

sys.path.append(str(Path(__file__).resolve().parents[2] / "scripts"))
from tables.claims import claim_text, is_best_test, judge_claims
from tables.spec import STUDIES, config_dirs, folder_name, read_table, table_paths

ROOT = Path(__file__).resolve().parents[2]
DATA = {
    "pairs": "Two views of each image, or pairs of any kind, without labels.",
    "noisy pairs": "Pairs of which some do not belong together.",
    "labels": "A class for each image.",
    "labels and bias labels": "A class and a bias (background, color, scanner, ...) for each image.",
    "bias unknown": "Classes, and the suspicion that something else predicts them.",
    "two encoders": "Two sources, such as images and texts, each with its encoder.",
}
# Tables whose settings were searched: by which table of the archive, and which rows (by a part of their name) were not.
SEARCHED = {
    "debiased_tuned": ("debiased_search", "t 0.5"),
    "objectives_cifar10": ("objectives_cifar10_search", None),
}
FIELD = re.compile(r"^:(\w+): (.+(?:\n .+)*)", re.MULTILINE)
LISTS = ("data", "cite", "related")  # fields that are words with commas between them
MEASURED = "TensorBoard shows it of every run as `train-pairs/push_ratio`."
NO_PUSH = "It is not measured: the loss compares no anchor with a list of candidates."
CHECKED = {
    "authors": "Equal to the authors' code on the same embeddings, and to a slow transcription of the formula.",
    "formula": "Equal to a slow transcription of the formula.",
}
INTERVAL = (
    "Mean over seeds with its 95 % interval in brackets, on test images. Accuracies are in percent. "
    "‡: the epoch that was best on the test split."
)
SEEDS = re.compile(r" (data_seed=\d+|hold_out=False)")  # of a dataset's settings: no part of the setting
Record = dict[str, Any]
Row = dict[str, Any]


BREAK = re.compile(r"(?<=\S)\n(?=[^\s*-])")  # of a line inside a paragraph


def pages() -> dict[str, str]:
    """{path below docs/: Markdown} of every generated page."""
    made = {f"losses/{name}.md": loss_page(name) for name in facts()}
    return {"losses/index.md": overview(), "leaderboard.md": leaderboard(), "commands.md": commands(), **made}


@cache
def facts() -> dict[str, dict[str, Any]]:
    """{loss: {field: its text, or its words}} of the docstrings of files in contrastive/loss/; `does` is their text."""
    found = {}
    for name in option_files("loss"):
        module = inspect.getmodule(load_target(target_of("loss", name)))
        _, _, text = (inspect.getdoc(module) or "").partition("\n\n")
        fields = {key: " ".join(value.split()) for key, value in FIELD.findall(text)}
        lists = {key: fields.get(key, "").split(", ") if key in fields else [] for key in LISTS}
        found[name] = {"does": " ".join(text.partition("\n:")[0].split()), **fields, **lists}
    return dict(sorted(found.items(), key=lambda item: (list(DATA).index(item[1]["data"][0]), item[0])))


@cache
def references() -> dict[str, str]:
    """{key: entry} of docs/references.bib."""
    entries = re.split(r"\n(?=@)", (ROOT / "docs/references.bib").read_text().strip())
    return {entry.partition("{")[2].partition(",")[0]: entry.strip() for entry in entries}


@cache
def records() -> tuple[Record, ...]:
    """The committed records with figures on test images; a search has none. What is archived is on no page."""
    files = (path for path in sorted(STUDIES.glob("*/*.json*")) if path.parent.name != "archive")
    found = ({**r, "page": file.parent.name} for file in files if (r := read_record(file)) is not None)
    return tuple(r for r in found if not all(metric.startswith("val.") for metric in r["metrics"]))


@cache
def claims_of(table: str) -> list[dict[str, Any]]:
    """The judged claims of a committed record."""
    return judge_claims(next(record for record in records() if record["table"] == table))


def overrides(row: Row) -> list[str]:
    """What a row's runs were given; older records have the former names of recipes."""
    return [re.sub(r"^experiment=hy_", "experiment=hong_yang_", word) for word in row["overrides"]]


def loss_of(row: Row) -> str:
    """The `loss=` that a row trained with, also where a recipe of its overrides chose it."""
    words = [word.partition("=") for word in overrides(row)]
    recipes = [value for key, _, value in words if key == "experiment"]
    chosen = [(item.key, "", item.value) for name in recipes for item in settings_of("experiment", name)]
    return next(value for key, _, value in reversed([("loss", "", "nt_xent"), *chosen, *words]) if key == "loss")


def loss_page(name: str) -> str:
    """Everything that files hold of one loss."""
    own, target = facts()[name], target_of("loss", name)
    needs = " and ".join(own["data"])
    parts = [
        f"# {own['title']}: `loss={name}`",
        own["does"],
        f"**When.** {own['when']}",
        f"**For** {needs}. **Memory** {own['memory']}. **Checked.** {CHECKED[own['checked']]}",
        "## Formula",
        code(BREAK.sub(" ", docstring_of(target))),
        "## Push",
        f"{push(target)} [What the push is](../push.md)",
        "## Settings",
        settings_table(name),
        "## Our figures",
        figures_of(name),
        claims_text_of(name),
        "## Cite",
        *(code(references()[key], "bibtex") if key in references() else f"<{key}>" for key in own["cite"]),
        *([] if own["cite"] else ["A standard loss without one paper of its own."]),
        "## Related",
        "\n".join(f"- [{facts()[other]['title']}]({other}.md)" for other in own["related"]),
        f"Python: [`contrastive.{target.rpartition('.')[2]}`](../api.md#{target})",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def push(target: str) -> str:
    """The line of a loss's docstring that begins with `Push:`."""
    own = load_target(target)
    found = re.search(r"^Push: (.+(?:\n(?!\n).+)*)", inspect.getdoc(own) or "", re.MULTILINE)
    if found:
        return " ".join(found[1].split())
    return MEASURED if issubclass(own, SelfSupervisedLoss | SupervisedContrastiveLoss) else NO_PUSH


def push_table() -> str:
    """The push of every loss that states one, for docs/push.md."""
    lines = ["| `loss=` | push of an anchor |", "|---|---|"]
    for name in facts():
        told = push(target_of("loss", name))
        if told not in (MEASURED, NO_PUSH):
            lines.append(f"| `{name}` | {told} |")
    return "\n".join(lines)


def settings_of(group: str, name: str) -> list[Setting]:
    """What an option sets, what it takes over from others included."""
    return list({item.key: item for file in reversed(derivation(group, name)) for item in settings_in(file)}.values())


def settings_table(name: str) -> str:
    """Defaults of the YAML, the sentence of the docstring, and the range that a comparison searches."""
    described, settings = arguments(target_of("loss", name)), settings_of("loss", name)
    ranges = searched_ranges(name)
    lines = ["| setting | default | | searched over |", "|---|---|---|---|"]
    for item in settings:
        key = item.key.removeprefix("loss.")
        value = item.value.removeprefix("${").removesuffix("}") if item.value.startswith("${") else item.value
        default = f"that of the run, `{value}`" if value != item.value else f"`{value}`"
        words = described.get(key) or item.sentence
        cells = (f"`{item.key}`", default, words, ranges.get(item.key) or ranges.get(key, ""))
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) if settings else "None."


def arguments(target: str) -> dict[str, str]:
    """{argument: its description} from the docstring of a class."""
    text = inspect.getdoc(load_target(target)) or ""
    block = re.search(r"^Args:\n((?:[ ]+.*\n|\n(?=[ ]))+)", text + "\n", re.MULTILINE)
    items = re.split(r"\n(?=\w+:)", textwrap.dedent(block[1]).strip()) if block else []
    return {item.partition(":")[0]: " ".join(item.partition(":")[2].split()) for item in items}


def searched_ranges(name: str) -> dict[str, str]:
    """{setting: its range} of configs/search."""
    files = [ROOT / "configs/search/common.yaml", ROOT / f"configs/search/loss/{name}.yaml"]
    nodes = [yaml.safe_load(file.read_text()) or {} for file in files if file.exists()]
    return {key: in_words(str(value)) for node in nodes for key, value in node.items()}


def in_words(space: str) -> str:
    """`tag(log, interval(0.05, 1))` as `0.05 to 1, log`."""
    found = re.fullmatch(r"(tag\(log, )?interval\(([^,]+), ([^)]+)\)+", space)
    return f"{found[2]} to {found[3]}{', log' if found[1] else ''}" if found else f"`{space}`"


def overview() -> str:
    """Losses by what data one has, and all in one table."""
    parts = [
        "# Losses",
        "Choose by the data you have. Each name leads to a page with formula, settings and our figures. "
        "The [leaderboard](../leaderboard.md) sets those figures side by side.",
    ]
    for data, sentence in DATA.items():
        names = [name for name, own in facts().items() if data in own["data"]]
        lines = [f"- [`{name}`]({name}.md): {facts()[name]['when']}" for name in names]
        parts += [f"## {data[:1].upper()}{data[1:]}", sentence, "\n".join(lines)]
    return "\n\n".join([*parts, "[All in one table](../all_losses.md)"]) + "\n"


def losses_table() -> str:
    """All losses, for docs/all_losses.md."""
    lines = ["| `loss=` | method | for | memory | checked against |", "|---|---|---|---|---|"]
    for name, own in facts().items():
        address = address_of(own["cite"][0]) if own["cite"] else None
        method = f"[{own['title']}]({address})" if address else own["title"]
        lines.append(f"| `{name}` | {method} | {', '.join(own['data'])} | {own['memory']} | {own['checked']} |")
    return "\n".join(lines)


def address_of(cited: str) -> str | None:
    """Where a paper is: of a key its url, an address itself."""
    found = re.search(r"url=\{([^}]+)\}", references().get(cited, f"url={{{cited}}}"))
    return found and found[1]


def figures_of(name: str) -> str:
    """The rows of every record that trained with a loss."""
    parts = []
    for record in records():
        rows = [row for row in record["rows"] if row["runs"] and loss_of(row) == name]
        if rows:
            parts += [f"### {record['title']}", where(record, "../"), rows_table(record, rows, "../", bold=False)]
    return "\n\n".join([*parts, INTERVAL]) if parts else "None yet: no committed run trains with it."


def claims_text_of(name: str) -> str:
    """The judged claims that name a row of a loss."""
    lines = []
    for record in records():
        rows = {row["name"] for row in record["rows"] if row["runs"] and loss_of(row) == name}
        for claim in claims_of(record["table"]):
            if rows & {claim["better"], claim["worse"]} and claim["effect"] is not None:
                metric = record["metrics"][claim["metric"]]
                cells = (claim_text(claim), metric, f"**{claim['verdict']}**", interval_text(claim), str(claim["n"]),
                         f"[{record['table']}]({page_of(record['page'], '../')})")  # fmt: skip
                lines.append("| " + " | ".join(cells) + " |")
    head = ["| claim | metric | verdict | effect [95 % interval] | seeds | table |", "|---|---|---|---|---|---|"]
    method = "[How claims are judged](../../studies/method.md#claims)"
    return "\n".join(["### Claims", "", *head, *lines, "", method]) if lines else ""


def leaderboard() -> str:
    """Every row of every committed record, best first in its table."""
    parts = [
        "# Leaderboard",
        "Every row that we ran, from the committed records. Compare within a table only: another table has another "
        "setting or another budget. *Searched* names the table that chose the settings, on other images and with "
        "other seeds.",
        INTERVAL,
    ]
    for record in records():
        rows = [row for row in record["rows"] if row["runs"]]
        parts += [f"## {record['title']}", where(record, ""), rows_table(record, rows, "")]
    return "\n\n".join(parts) + "\n"


def where(record: Record, up: str) -> str:
    """The setting of a record's runs, and links to its page and its command."""
    runs = [run for row in record["rows"] for run in row["runs"]]
    settings = {key: ", ".join(dict.fromkeys(SEEDS.sub("", run["settings"][key]) for run in runs))
                for key in ("dataset", "encoder", "epochs", "batch_size")}  # fmt: skip
    minutes = clock(60 * mean(run["minutes"] for run in runs))
    return (
        f"{settings['dataset']}; {settings['encoder']}; {settings['epochs']} epochs, "
        f"batch {settings['batch_size']}; {minutes} a run. [Page]({page_of(record['page'], up)}), "
        f"[command]({up}commands.md#{record['table']})."
    )


def page_of(study: str, up: str) -> str:
    """The page of a study, from a page of docs/ that lies as deep as `up` says."""
    return f"{up}../studies/{study}/README.md"


def rows_table(record: Record, rows: list[Row], up: str, *, bold: bool = True) -> str:
    """Rows of each setting by the mean of the first metric, best first; `bold`: the best of each setting."""
    frame, metrics = record_frame(record), list(record["metrics"])
    points = list(dict.fromkeys(row["point"] for row in rows))

    def rank(row: Row, metric: str) -> float:
        values = frame.values(row["name"], metric)
        return (-1 if lower_is_better(metric) else 1) * mean(values) if values else float("-inf")

    best = {(p, m): max(rank(row, m) for row in rows if row["point"] == p) for p in points for m in metrics}
    head = ["loss", "row", *(record["metrics"][metric] for metric in metrics), "seeds", "searched", "command"]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for row in sorted(rows, key=lambda row: (points.index(row["point"]), -rank(row, metrics[0]))):
        values = {metric: frame.values(row["name"], metric) for metric in metrics}
        cells = [
            f"**{text}**" if bold and values[m] and rank(row, m) == best[row["point"], m] else text
            for m in metrics for text in [interval(values[m]) + ("‡" if values[m] and is_best_test(row, m) else "")]
        ]  # fmt: skip
        place = f"[run]({up}commands.md#{anchor(record, row)})"
        seeds = str(max(map(len, values.values())))
        line = [linked(loss_of(row), up), row["name"], *cells, seeds, searched(record, row, up), place]
        lines.append("| " + " | ".join(line) + " |")
    return "\n".join(lines)


def interval(values: list[float]) -> str:
    """`93.20 [92.41, 93.99]`: the mean and its 95 % interval over seeds; of a single seed the value alone."""
    if len(values) < 2:
        return spread(values).partition(" ")[0]
    estimate = paired_estimate(values)
    low, high = estimate.effect - estimate.half(), estimate.effect + estimate.half()
    return f"{estimate.effect:.2f}\u00a0[{low:.2f},\u00a0{high:.2f}]"  # which break at no space


def linked(loss: str, up: str) -> str:
    """A loss with a link to its page; those of examples have none."""
    return f"[`{loss}`]({up}losses/{loss}.md)" if loss in facts() else f"`{loss}`"


def searched(record: Record, row: Row, up: str) -> str:
    """The table that chose a row's settings; `no` where they were given."""
    if "comparison" in record:
        has_searched = record["comparison"]["plan"]["budget"] > 1 and not row["name"].endswith(AS_IT_COMES)
        return f"[yes]({page_of(record['page'], up)})" if has_searched else "no"
    by, but = SEARCHED.get(record["table"], (None, None))
    if by is None or (but and but in row["name"]):
        return "no"
    return f"[{by}]({page_of('archive', up)}#{by})"


def anchor(record: Record, row: Row) -> str:
    """The place of a row's command on its page; a comparison has one command."""
    if "comparison" in record:
        return str(record["table"])
    return f"{record['table']}-{re.sub(r'[^a-z0-9_]+', '-', folder_name(row['name']).lower())}"


def commands() -> str:
    """What to type for each table and each of its rows."""
    parts = ["# Commands of the records", "A table's command runs all of its rows. A row's runs its seeds."]
    for record in records():
        rows = [row for row in record["rows"] if row["runs"] and "comparison" not in record]
        commits = ", ".join(dict.fromkeys(own["commit"][:12] for own in record["environments"] if own["commit"]))
        parts += [
            f"## {record['title']} {{ #{record['table']} }}",
            f"Computed at commit {commits}; [its page]({page_of(record['page'], '')}).",
            code(table_command(record), "sh"),
        ]
        for row in rows:
            seeds = ",".join(str(run["seed"]) for run in row["runs"])
            words = ["python", "train.py", "-m", *own_components(record), *overrides(row), f"seed={seeds}"]
            parts += [f"### {row['name']} {{ #{anchor(record, row)} }}", code(shlex.join(words), "sh")]
    return "\n\n".join(parts) + "\n"


def table_command(record: Record) -> str:
    """The command that runs a whole table, or a comparison, as it was run."""
    if "comparison" in record:
        return comparison_command(record["comparison"]["plan"])
    preset = [f"--preset={record['preset']}"] if record["preset"] != "paper" else []
    return shlex.join(["python", "scripts/reproduce_table.py", record["table"], *preset, *record["extra"]])


def own_components(record: Record) -> list[str]:
    """What train.py is told of the folder of components that a table names."""
    table = read_table(table_paths()[record["table"]])
    return [f"--config-dir={folder.relative_to(ROOT)}" for folder in config_dirs(table)]


def comparison_command(plan: dict[str, Any]) -> str:
    """The command of a comparison, its contestants as rows."""
    typed = {own["name"]: [*own["words"], *(f"{key}={text}" for key, text in own["ranges"].items())]
             for own in plan["contestants"]}  # fmt: skip
    rows = ", ".join(f"{name}: '{' '.join(words)}'" for name, words in typed.items())
    numbers = [f"{key}={plan[key]}" for key in ("budget", "seeds", "searches")]
    ranges = [f"{key}={typed}" for key, typed in plan["ranges"].items()]
    return shlex.join(["contrastive", "compare", f"rows={{{rows}}}", *plan["common"], *ranges, *numbers])


def code(text: str, language: str = " {.text .wraps}") -> str:
    """A code block; text breaks at spaces."""
    return f"```{language}\n{text}\n```"
