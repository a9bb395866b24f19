"""A comparison from Python: contrastive.compare(loss=["nt_xent", "my_loss"], dataset="digits")."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from contrastive.config.messages import user_message
from contrastive.config.words import typed
from contrastive.errors import ConfigError
from contrastive.report.frame import runs
from contrastive.run.files import read_result
from contrastive.study.compare.contest import known_runs
from contrastive.study.compare.engine import run_comparison
from contrastive.study.compare.progress import answer, base_of
from contrastive.study.render.effects import claims_of
from contrastive.study.render.sentences import sentences

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A comparison that is done.

    Attributes:
        path: the folder of its runs; the page PATH.html and the record PATH.json lie beside it.
        claims: {name, against, verdict, effect, low, high, ...} of each pair.
        sentences: what they say.
        frame: the final runs, as `contrastive.runs` gives them.
        record: the content of PATH.json.
    """

    path: Path
    claims: list[dict[str, Any]]
    sentences: list[str]
    frame: "pd.DataFrame"
    record: dict[str, Any]

    def __repr__(self) -> str:
        return f"Comparison({str(self.path)!r}: {'; '.join(self.sentences)})"

    def _repr_html_(self) -> str:
        """The sentences, forest and effects, as a notebook shows them."""
        from contrastive.study.render.page import verdict_html  # late: only pages need its packages

        return verdict_html(self.record)


def compare(*words: str, config_dir: str | Path | None = None, n_jobs: int = -1, **settings: Any) -> Comparison:
    """Search every contestant equally, train the best with fresh seeds, judge them: `contrastive compare`.

    A list makes contestants: `compare(loss=["nt_xent", "debiased_pos"], dataset="digits", seeds=8)`. A list of data
    sets gives one verdict over all of them; `frame` then has the runs on each. The same call continues an interrupted
    comparison, and returns the result of a finished one.

    Args:
        words: KEY=VALUE, as typed after `contrastive compare`.
        config_dir: a folder of your own YAMLs and modules.
        n_jobs: runs at a time; -1 = one on each GPU or core.
        settings: the same as keywords; `rows` may be a dict. A setting that is a list itself is typed as a word.

    Raises:
        ConfigError: a setting or a plan that cannot be used, or a run that failed for a reason that is not its own.
    """
    typed = [*words, *(f"{key}={_text(key, value)}" for key, value in settings.items())]
    try:
        folders = [] if config_dir is None else [Path(config_dir).resolve()]
        contests, not_done = run_comparison(typed, folders=folders, n_jobs=n_jobs)
        if not_done:
            raise ConfigError(f"{not_done[0]}: try the same call again, which continues")
        answer(contests)
    except Exception as error:
        message = user_message(error, words=typed)
        if message is None or isinstance(error, ConfigError):
            raise
        raise ConfigError(message) from error
    import pandas as pd  # late: it takes half a second

    base = base_of(contests)
    record = json.loads(base.with_name(f"{base.name}.json").read_text())
    runs_of = [run for one in contests for own in one.methods for run in known_runs(one, own)]
    finished = [run.path for run in runs_of if run.stage == "final" and read_result(run.path) is not None]
    return Comparison(
        path=base,
        claims=claims_of(record),
        sentences=sentences(record),
        frame=runs(*finished) if finished else pd.DataFrame(),  # none where every training broke down
        record=record,
    )


def _text(key: str, value: Any) -> str:
    if key == "rows" and isinstance(value, dict):
        return json.dumps(value)
    return ",".join(map(typed, value)) if isinstance(value, list | tuple) else typed(value)
