"""SIGKILL of consumer, publisher, writer and PostgreSQL for as long as one likes, and a comparison of what is left.

python -m tests.faults.soak --db sqlite|postgres --kills N --seed S
"""
