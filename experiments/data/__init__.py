"""Where the data of the experiments come from, and how to make the files that they read."""
