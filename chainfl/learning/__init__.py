"""Learning: models, data sets, partitions, training, scoring and attacks. Importing this package is cheap.

`datasets`, `partition` and `attacks` need numpy alone; `models`, `train`, `evaluate` and `trainer` need torch.
"""
