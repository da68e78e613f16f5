"""The one exception that is meant for users: a mistake that they can mend."""


class UserError(Exception):
    """Bad input, in one line. The command line prints the line and exits with code 2, without a traceback."""
