"""MLflow."""

import time
from pathlib import Path

from contrastive.config.identity import flatten
from contrastive.run.files import read_config
from contrastive.text import as_typed
from contrastive.tracker.base import Tracker

MAX_PARAMS = 100  # of a request


class MLflow(Tracker):
    """A run on an MLflow server, or in a database on this machine.

    Args:
        experiment: made if there is none.
        uri: of the server or database; None is MLFLOW_TRACKING_URI, else what MLflow takes: mlflow.db in this folder.
    """

    package = "mlflow"

    def __init__(self, *, experiment: str = "contrastive", uri: str | None = None) -> None:
        super().__init__()
        self.experiment, self.uri = experiment, uri

    def connect(self, run: Path, known: str | None) -> str:
        from mlflow import MlflowClient  # slow to import
        from mlflow.entities import Param

        self.client = MlflowClient(tracking_uri=self.uri)
        if known is not None:
            self.client.update_run(known, status="RUNNING")
            self.id = known
            return known
        found = self.client.get_experiment_by_name(self.experiment)
        experiment = self.client.create_experiment(self.experiment) if found is None else found.experiment_id
        self.id = str(self.client.create_run(experiment, run_name=as_typed(run)).info.run_id)
        params = [Param(key, str(value)) for key, value in flatten(read_config(run)).items()]
        for first in range(0, len(params), MAX_PARAMS):
            self.client.log_batch(self.id, params=params[first : first + MAX_PARAMS])
        return self.id

    def send(self, step: int, metrics: dict[str, float]) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        self.client.log_batch(self.id, metrics=[Metric(key, value, now, step) for key, value in metrics.items()])

    def disconnect(self, *, finished: bool) -> None:
        self.client.set_terminated(self.id, status="FINISHED" if finished else "KILLED")
