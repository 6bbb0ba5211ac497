"""Results of a run in the forms that other programs read: a module for each family of them."""
