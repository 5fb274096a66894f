"""Translation models: recurrent ones with and without attention, and the Transformer."""
