"""python -m offleash: the `offleash` command."""

from offleash.cli.main import main

if __name__ == "__main__":
    main()
