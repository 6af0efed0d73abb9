"""A task: data, split and scaled, with what to predict and how it is measured."""
