"""Where samples come from: one module per file format, each from files to plain arrays, without pickle."""
