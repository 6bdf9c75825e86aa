"""Makes the modules beside the tests importable, and those that judge small histories by brute force."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "checker" / "linearizability_checker" / "tests")]
