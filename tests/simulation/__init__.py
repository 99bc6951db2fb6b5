"""The consumer in a simulated world: its real code, over a network, a disk and a clock that are made up."""
