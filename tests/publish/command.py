"""The command with the publisher's part for certain; `python command.py serve …` is `consumer serve …`.

TEST_LIMITS, a JSON object, gives the publisher other limits than the command has.
"""

import json
import os
from functools import partial

from consumer import cli, exits
from consumer.errors import AddressInUse, BadInput, JournalUnusable
from consumer.publish import Limits, Publisher, commands
from consumer.publish.commands import journal_app, serve

if not any(command.callback is serve for command in cli.app.registered_commands):
    cli.app.command()(serve)
    cli.app.add_typer(journal_app, name="journal")
    exits.EXIT_CODES.update({BadInput: 2, JournalUnusable: 19, AddressInUse: 22})

if "TEST_LIMITS" in os.environ:
    commands.Publisher = partial(Publisher, limits=Limits(**json.loads(os.environ["TEST_LIMITS"])))

if __name__ == "__main__":
    cli.main()
