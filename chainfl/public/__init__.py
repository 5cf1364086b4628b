"""What programs and notebooks use of chainfl (docs/python.md); `import chainfl` names all of it."""
