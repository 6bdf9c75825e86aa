"""JSON Lines + zstd: the bytes of a JSON Lines file in zstd frames.

The writer ends a frame after every `FRAME_EVENTS` events, so that what a killed process had written is readable, and
so that the same events are the same bytes.
"""

from __future__ import annotations

import pyarrow as pa

FRAME_EVENTS = 8192
LEVEL = 3


def compress(data: bytes) -> bytes:
    """The data as one zstd frame, at `LEVEL`."""
    frame: bytes = pa.Codec("zstd", compression_level=LEVEL).compress(data, asbytes=True)
    return frame
