"""The Python around the specifications: fetching and running TLC, reading its output, validating recorded runs.

The specifications themselves are the TLA+ modules beside this package, in a folder for each protocol (``spec/raft``);
its ``models.yaml`` lists the models. This package imports neither the implementation nor the checker: what it knows of
them comes from histories.
"""
