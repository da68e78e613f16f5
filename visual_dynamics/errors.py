"""What is meant for users: the one exception, a mistake that they can mend, and the one warning."""

LONGEST = 800  # signs of a message


class UserError(Exception):
    """Bad input, in one line. The command line prints the line and exits with code 2, without a traceback."""

    def __init__(self, message: str = "") -> None:
        line = " ".join(message.splitlines())  # it may quote what a file holds
        super().__init__(line if len(line) <= LONGEST else f"{line[:LONGEST]} ...")


class UnfamiliarPicture(UserWarning):
    """A picture does not look like those that the model learned from: results are drafts at best."""
