"""One Spark session for all tests of a process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from logwitness.models import Limits
from logwitness.pipeline.run import audit_once
from logwitness.pipeline.session import check_spark, spark_session
from logwitness.pipeline.summary import Summary

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "checker")]

from audit_tables import Auditor  # noqa: E402


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    check_spark("audit")
    with spark_session("tests", "local[2]") as session:
        yield session


@pytest.fixture(scope="session")
def audited(spark: SparkSession) -> Auditor:
    """Audits SOURCE into OUT."""

    def audit(source: Path, out: Path, **options: Any) -> Summary:  # noqa: ANN401
        return audit_once(str(source), str(out), nullcontext(spark), Limits(), **options)

    return audit
