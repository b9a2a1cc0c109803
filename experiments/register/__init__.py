"""The register: what the five documents print beside what was measured here, and a status for each line."""
