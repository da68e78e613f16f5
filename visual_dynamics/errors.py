"""What is meant for users: the one exception, a mistake that they can mend, and the one warning."""


class UserError(Exception):
    """Bad input, in one line. The command line prints the line and exits with code 2, without a traceback."""


class UnfamiliarPicture(UserWarning):
    """A picture does not look like those that the model learned from: results are drafts at best."""
