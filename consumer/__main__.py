"""`python -m consumer` is the command `consumer`."""

from consumer.cli.app import main

if __name__ == "__main__":
    main()
