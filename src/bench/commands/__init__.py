"""The commands of `python -m bench`. Each module has `main(arguments) -> exit code`."""
