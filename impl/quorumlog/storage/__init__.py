"""The log of a node: record batches, segments, flushed and dirty offsets, on real files or on a simulated disk."""

from quorumlog.storage.batch import (
    HEADER_BYTES,
    MAX_BATCH_BYTES,
    MAX_RECORDS,
    BatchDamaged,
    BatchHeader,
    BatchKind,
    RecordBatch,
    decode,
    decode_header,
)
from quorumlog.storage.disk import Disk, DiskFull, DiskLocked, FlushFailed, StorageError
from quorumlog.storage.files import FileDisk
from quorumlog.storage.log import BatchPlace, FlushTicket, Log, LogFailed, OffsetOutOfRange
from quorumlog.storage.recovery import LogDamaged, RecoveryReport
from quorumlog.storage.sealed import FileDamaged
from quorumlog.storage.simulated import SimulatedDisk
from quorumlog.storage.vote import VoteStore

__all__ = [
    "HEADER_BYTES",
    "MAX_BATCH_BYTES",
    "MAX_RECORDS",
    "BatchDamaged",
    "BatchHeader",
    "BatchKind",
    "BatchPlace",
    "Disk",
    "DiskFull",
    "DiskLocked",
    "FileDamaged",
    "FileDisk",
    "FlushFailed",
    "FlushTicket",
    "Log",
    "LogDamaged",
    "LogFailed",
    "OffsetOutOfRange",
    "RecordBatch",
    "RecoveryReport",
    "SimulatedDisk",
    "StorageError",
    "VoteStore",
    "decode",
    "decode_header",
]
