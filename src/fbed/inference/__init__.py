"""How much of a selection to believe: many searches instead of one, and what they have in common."""
