"""One Spark session for all tests of a process."""

from __future__ import annotations

import shutil
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
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    check_spark("audit")
    place = tmp_path_factory.mktemp("behind-hadoop")
    mounted = {"spark.hadoop.fs.viewfs.mounttable.tests.link./data": place.as_uri()}
    with spark_session("tests", "local[2]", mounted) as session:
        yield session


@pytest.fixture
def behind_hadoop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """A directory by a URI that only Hadoop's client understands, and where its files are."""
    settings = spark.sparkContext.getConf()
    place = Path(settings.get("spark.hadoop.fs.viewfs.mounttable.tests.link./data", "").removeprefix("file://"))
    own = tmp_path_factory.mktemp("own").name
    (place / own).mkdir()
    yield f"viewfs://tests/data/{own}", place / own
    shutil.rmtree(place / own)


@pytest.fixture(scope="session")
def audited(spark: SparkSession) -> Auditor:
    """Audits SOURCE into OUT."""

    def audit(source: Path | str, out: Path | str, **options: Any) -> Summary:  # noqa: ANN401
        return audit_once(str(source), str(out), nullcontext(spark), Limits(), **options)

    return audit
