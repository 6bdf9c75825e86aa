"""The protocol cores in virtual time: one seed decides everything."""
