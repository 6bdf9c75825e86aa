"""Histories of other systems: which model they are judged by, and the models that are no log of ours.

A log is judged by the checks (`logwitness.checks`). Registers, key-value stores, sets and queues (`linearizable`) are
judged by Porcupine (`search`), or without it (`sets_and_queues`); Kafka-like workloads (`kafka`), lists (`lists`) and
transactions over lists (`transactions`) by history-checks.md#anomalies.
"""

from .choice import Model, model_of
from .judge import check_model, every_check, judged_by
from .linearizable import Limits

__all__ = ["Limits", "Model", "check_model", "every_check", "judged_by", "model_of"]
