"""How the program says no. Imports nothing, so that a mistake on the command line is answered at once."""


class Refusal(Exception):
    """Something asked for that cannot be done: one sentence that ends in what to type. The program exits with 2."""


def require(condition: bool, sentence: str) -> None:
    """Raise Refusal(sentence) unless the condition holds."""
    if not condition:
        raise Refusal(sentence)
