"""A run on many machines: its shards, the engines that run them, and the examples that they share.

`shards` imports `sharding`, and runs on the workers of engines, too. `examples` knows nothing of shards.
"""
