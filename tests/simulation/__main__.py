"""`python -m tests.simulation`."""

from tests.simulation.run import main

if __name__ == "__main__":
    main()
