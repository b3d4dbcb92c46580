"""The campaigns of the judge: each generates cases of one kind; the observers judge them."""
