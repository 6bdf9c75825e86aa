"""Faults and phases of a run, as whoever drives the run sees them."""

from __future__ import annotations

from enum import StrEnum

from ..vocabulary import EventKind, Vocabulary, Words


class FaultWord(StrEnum):
    """Column ``f`` of faults that checks know; there are others."""

    WIPE = "wipe"
    POWER_LOSS = "power_loss"
    POWER_LOSS_MIDWAY = "power_loss_midway"
    CRASH = "crash"
    STORAGE_ERROR = "storage_error"
    FSYNC_ERROR = "fsync_error"
    OPEN_ERROR = "open_error"
    DISK_FULL = "disk_full"
    TRIM = "trim"
    COMPACT = "compact"


class Phase(StrEnum):
    """Words of the column ``f`` of a phase: the sections of a run."""

    LOAD = "load"
    HEAL = "heal"
    FINAL_READ = "final_read"


VOCABULARY = Vocabulary(
    "surroundings",
    "faults and phases",
    kinds=(
        EventKind("fault", "The fault `f` begins; `text` holds its arguments.", ("f",), may_carry=("node", "text")),
        EventKind("heal", "The fault `f` ends.", ("f",), may_carry=("node", "text")),
        EventKind("phase", "The section `f` of the run begins.", ("f",)),
    ),
    words=(
        Words(
            "f",
            ("fault", "heal"),
            {
                FaultWord.WIPE: "the node's disk was emptied",
                FaultWord.POWER_LOSS: "power was cut; a black-box run has no `power_loss` events",
                FaultWord.POWER_LOSS_MIDWAY: "power is cut in the middle of a step, some time before the fault ends",
                FaultWord.CRASH: "a process was killed",
                FaultWord.STORAGE_ERROR: "a disk failed",
                FaultWord.FSYNC_ERROR: "flushes fail from now on until the fault ends",
                FaultWord.OPEN_ERROR: "the same for the flushes with which a log is opened",
                FaultWord.DISK_FULL: "nothing can be written until the fault ends; what was there stays",
                FaultWord.TRIM: "nodes trim their logs",
                FaultWord.COMPACT: "nodes compact their logs by key",
            },
        ),
        Words(
            "f",
            ("phase",),
            {
                Phase.LOAD: "clients work, faults begin and end",
                Phase.HEAL: "all faults end",
                Phase.FINAL_READ: "readers read everything",
            },
        ),
    ),
)
