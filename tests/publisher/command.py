"""The command `consumer`, whose publisher may be given other limits: TEST_LIMITS, a JSON object of `Limits`."""

import json
import os
from functools import partial

from consumer.cli import main, serving
from consumer.publisher import Limits, Publisher

if "TEST_LIMITS" in os.environ:
    serving.Publisher = partial(Publisher, limits=Limits(**json.loads(os.environ["TEST_LIMITS"])))

if __name__ == "__main__":
    main()
