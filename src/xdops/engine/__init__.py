"""How an XD-operation is evaluated: workloads, plans, forms and kernels over plain tensors. No nn.Module, torch alone."""
