"""Configuration errors. Imports nothing, so that a mistake on the command line is answered at once."""


class ConfigError(Exception):
    """Invalid configuration. The message is one sentence that ends with what to type instead; the program exits with 2."""
