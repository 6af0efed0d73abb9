"""The paper's tables and figures: rows, presets and costs."""
