"""Auditing at scale: any number of histories, of any supported format, judged on Spark.

Stages: `sources` lists the histories and `store` says which are new; `ingest` makes canonical Parquet of each and,
where that is one task's work, judges it in the same pass; `large` judges what is too much for one task; `store` commits
the tables. Spark schedules, moves and sorts; what judges are the folds of `logwitness.checks`, as in process.

Nothing here is imported by the rest of the checker, and pyspark only where a session is needed, so that the checker
works without the extra ``spark``.
"""
