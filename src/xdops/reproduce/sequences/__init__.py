"""Sequences: music (section 7, Table 3), permuted MNIST and Penn Treebank (appendix, Tables 12 and 13)."""
