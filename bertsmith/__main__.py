"""`python -m bertsmith` is the command line."""

from bertsmith.cli import main

if __name__ == "__main__":
    main()
