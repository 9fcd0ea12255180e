"""One file, one table or figure: recipes laid out side by side."""
