"""Frozen sets of requirements by date, what an agent keeps of them, and the badge that shows it.

`sets` reads them, `outcome` judges a run by their tiers, `badge` draws; `pinnace_campaigns.requirements` makes the next
one. Imports point to `results` and the scenarios; nothing here plays.
"""
