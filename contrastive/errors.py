"""Configuration errors. Imports nothing, so that a mistake on the command line is answered at once."""


class ConfigError(Exception):
    """Invalid configuration: one sentence that ends with what to type instead. The program exits with 2."""
