"""What is known of the selector without torch."""

from tread_bench import SelectorFamily, TokenOrder

CHECKERBOARD = SelectorFamily(
    name="checkerboard",
    about="The tokens of one colour of a checkerboard, then those of the other.",
    ranking="checkerboard.ranking:rank_by_colour",
    token_orders=frozenset(TokenOrder),
    needs_grid=True,
)
