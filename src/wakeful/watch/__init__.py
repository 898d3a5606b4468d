"""What did not happen: expectations, who looks whether they were met, and who notices when nobody looks any more."""
