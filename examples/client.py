"""The lab's `client.py`: the seven steps are the package's own."""

import asyncio
import sqlite3

from consumer import *
