"""What Flower calls an app: a few lines that name the run at the server, copied as they stand here."""
