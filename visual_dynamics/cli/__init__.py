"""How people reach it: the command line and the files it writes."""
