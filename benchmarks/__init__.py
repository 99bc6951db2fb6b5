"""Speed, measured beside what a good engineer writes by hand in an afternoon.

`python -m benchmarks` runs product and peer in turn against the same publisher, in the same folder
and with the same database settings, checks the tables that both leave, and prints one table.
`python -m benchmarks.techniques` measures the single techniques that a fast consumer is made of.
Nothing here is part of the package; the peers use nothing of it.
"""
