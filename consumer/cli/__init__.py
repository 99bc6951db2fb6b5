"""The command `consumer`: what is typed, what is printed, and with which exit code it ends.

Typer and Rich are used in this wing only. What a command does is written in the other wings.
"""
