"""The columns as the models see them: centred, scaled, categories expanded, by blocks of rows."""
