"""`python -m consumer` is the command `consumer`."""

from consumer.cli import main

if __name__ == "__main__":
    main()
