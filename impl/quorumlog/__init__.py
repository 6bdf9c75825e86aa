"""The implementation: protocol cores without I/O, storage, a simulator and real nodes that run them."""
