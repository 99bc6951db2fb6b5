"""What a running consumer tells others: the observations, and whatever writes them down.

Observers are told what has happened. They decide nothing, and cannot disturb the consumer.
"""
