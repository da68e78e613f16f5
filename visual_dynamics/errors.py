"""The one exception that is meant for people: a mistake its reader can mend."""


class UserError(Exception):
    """Bad input, told in one line. The command line prints the line and exits with code 2, without a traceback."""
